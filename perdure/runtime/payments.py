"""Payments as those who serve clients use them: what an agent costs, what pays for it, and paying for a run that waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from perdure.activities.contracts import PAYMENT
from perdure.activities.convert import converter
from perdure.errors import PaymentNeeded, WaitAnswered, WaitStale
from perdure.runtime.sessions import Sessions
from perdure.store.agents import find_agent
from perdure.store.payments.run_payments import read_policy
from perdure.store.payments.settling import gate_of
from perdure.store.runs import find_run
from perdure.store.waits import WaitRow, open_wait_of
from perdure.uap.payments import LEDGER, LEDGER_SCHEMES, Balance, PaymentGate, Refusal, SubmittedPayment, ways_to_pay
from perdure.uap.spec import PaidSpec
from perdure.upp.json_value import JSONObject

_FREE = PaidSpec("0", schemes=[cast("dict[str, Any]", scheme.to_json()) for scheme in LEDGER_SCHEMES])


@dataclass(frozen=True, slots=True)
class OpenPayment:
    """What a run waits for.

    Attributes:
        wait: id of its wait.
        asked: amount, currency, schemes, reason and expires_at, in seconds.
    """

    wait: str
    asked: JSONObject


class Payments:
    """The payments of one tenant's runs."""

    def __init__(self, sessions: Sessions, gates: Mapping[str, PaymentGate]) -> None:
        """Ask `gates`, by name."""
        self._sessions = sessions
        self._gates = gates

    async def policy(self, agent: str) -> PaidSpec | None:
        """How an agent is paid for; None if its runs cost their callers nothing.

        Raises:
            UnknownAgent: no worker has registered it.
            GateMissing: this process does not have its gate.
        """
        row = await find_agent(self._sessions.database, self._sessions.tenant, agent)
        found = cast("dict[str, Any] | None", row.spec.get("paid"))
        if found is None:
            return None
        paid = converter.structure(found, PaidSpec)
        gate_of(self._gates, paid.gate)
        return paid

    async def accept(self, agent: str, payment: SubmittedPayment, *, covers: bool = True) -> JSONObject | Refusal:
        """What stands for a payment from now on, without its secrets: `RunOptions.payment` of runs that it pays for.

        Of an agent that costs nothing it is a token that may pay for another one.

        Args:
            agent: who is to be paid.
            payment: what pays.
            covers: it is refused if it does not cover the beginning of a run now.

        Raises:
            UnknownAgent: no worker has registered the agent.
            GateMissing: this process does not have its gate.
        """
        paid = await self.policy(agent)
        if paid is None:
            return await self._accept(_FREE, payment, None, None)
        return await self._accept(paid, payment, Decimal(paid.hold) if covers else None, paid.currency)

    async def submit(self, run: str, payment: SubmittedPayment, *, by: str) -> JSONObject | Refusal | None:
        """Pay for a run that waits for it; the run goes on.

        Args:
            run: its id.
            payment: what pays.
            by: who pays, for the wait's row.

        Returns:
            What stands for the payment; why it is refused, and then the run waits on; None if it waits for none.

        Raises:
            UnknownRun: there is none.
            GateMissing: this process does not have its gate.
        """
        found = await self._waiting(run)
        if found is None:
            return None
        row, paid = found
        source = await self._accept(paid, payment, Decimal(str(row.asked["amount"])), paid.currency)
        if isinstance(source, Refusal):
            return source
        try:
            await self._sessions.answer_payment(row, source, by=by)
        except (WaitAnswered, WaitStale):
            return None
        return source

    async def open(self, run: str) -> OpenPayment | None:
        """What a run waits for; None if it does not wait for a payment.

        Raises:
            UnknownRun: there is none.
        """
        found = await self._waiting(run)
        return None if found is None else OpenPayment(found[0].id, found[0].asked)

    async def balance(self, agent: str, source: JSONObject) -> Balance | Refusal:
        """What the payer behind a source has left.

        Raises:
            UnknownAgent: no worker has registered the agent.
            GateMissing: this process does not have its gate.
        """
        paid = await self.policy(agent)
        gate = gate_of(self._gates, LEDGER if paid is None else paid.gate)
        return await gate.balance(self._sessions.tenant, cast(JSONObject, source["source"]))

    async def require(self, agent: str, payment: SubmittedPayment | None) -> JSONObject | None:
        """What stands for the payment of a request that is answered only if it is paid for; None if nothing is to be paid.

        Raises:
            PaymentNeeded: the agent is paid for, and there is no payment or it is refused.
            UnknownAgent: no worker has registered the agent.
            GateMissing: this process does not have its gate.
        """
        paid = await self.policy(agent)
        if paid is None:
            return None
        ways = ways_to_pay(paid)
        if payment is None:
            price = f"{paid.hold} {paid.currency}"
            raise PaymentNeeded(f"agent {agent!r} is paid for; bring a payment that covers {price}", accepts=ways)
        source = await self._accept(paid, payment, Decimal(paid.hold), paid.currency)
        if isinstance(source, Refusal):
            raise PaymentNeeded(source.message, code=source.code, accepts=ways, can_retry=source.can_retry)
        return source

    async def _accept(
        self, paid: PaidSpec, payment: SubmittedPayment, amount: Decimal | None, currency: str | None
    ) -> JSONObject | Refusal:
        schemes = [str(item["scheme"]) for item in paid.schemes]
        if payment.scheme not in schemes:
            return Refusal("payment_failed", f"scheme {payment.scheme[:40]!r} is not taken; use {', '.join(schemes)}")
        gate = gate_of(self._gates, paid.gate)
        source = await gate.accept(self._sessions.tenant, payment, amount=amount, currency=currency)
        return source if isinstance(source, Refusal) else {"scheme": payment.scheme, "source": source}

    async def _waiting(self, run: str) -> tuple[WaitRow, PaidSpec] | None:
        """The run's open wait, and how its run is paid for: that was frozen when it began."""
        row = await find_run(self._sessions.database, self._sessions.tenant, run)
        wait = await open_wait_of(self._sessions.database, row.key, row.id, PAYMENT)
        policy = await read_policy(self._sessions.database, row.key, row.id)
        return None if wait is None or policy is None else (wait, converter.structure(policy, PaidSpec))
