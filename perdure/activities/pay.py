"""`pay`: sees that a run is paid for before it goes on, or has it wait for its payment. A local activity."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import PayInput, PayResult
from perdure.activities.lifeline import writer_of
from perdure.activities.services import Services
from perdure.store.answers import Writer
from perdure.store.payments import run_payments
from perdure.store.payments.run_payments import Claim
from perdure.store.payments.settling import gate_of
from perdure.testing.crash import crash_point
from perdure.uap.events import payment_held, payment_refused, payment_required
from perdure.uap.ids import derive_id
from perdure.uap.payments import Balance, PaymentHold, Refusal, plain_amount
from perdure.uap.spec import PaidSpec
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.redaction import known_secrets
from perdure.upp.timestamp import now

TOP_UP = "top_up"
"""What a payer is told that a payment is for which a run needs on its way."""


class Pay:
    """The payments of runs on one worker."""

    def __init__(self, services: Services) -> None:
        """Ask the gates of `services`."""
        self._services = services

    @activity.defn(name=contracts.PAY)
    async def pay(self, call: PayInput) -> PayResult:
        """Hold what is missing; safe to repeat: a hold's id depends on the run and the holds before it alone.

        Raises:
            GateMissing: this worker's app does not have the agent's gate.
        """
        writer = writer_of(call.tenant, call.session, call.run)
        claimed = await run_payments.claim(self._services.database, writer, call.paid, Decimal(call.spent))
        if claimed.kind != "ask":
            return _told(claimed)
        crash_point("pay.claimed")
        if claimed.holds and claimed.spent < claimed.held:
            return _held(call, claimed, claimed.held)
        missing = max(Decimal(call.paid.hold), claimed.spent - claimed.held + Decimal(call.paid.hold))
        source = claimed.answer or (await self._services.options(writer)).payment
        if source is None:
            return await self._open(writer, call.paid, claimed, missing, None)
        answer = await self._hold(writer, call.paid, claimed, missing, source)
        crash_point("pay.held")
        if isinstance(answer, Refusal):
            return await self._refused(writer, call.paid, claimed, missing, answer)
        events = [payment_held(_hold_id(writer, claimed), missing, answer, asked=claimed.fresh)]
        kind, held = await run_payments.note_hold(self._services.database, writer, claimed.holds + 1, missing, events)
        crash_point("pay.noted")
        self._services.announcer.changed(writer.key)
        return _held(call, claimed, held) if kind == "held" else PayResult(kind)

    async def _hold(
        self, writer: Writer, paid: PaidSpec, claimed: Claim, amount: Decimal, source: JSONObject
    ) -> Balance | Refusal:
        gate = gate_of(self._services.gates, paid.gate)
        key = writer.key
        wanted = PaymentHold(key.tenant, key.session, writer.run, _hold_id(writer, claimed), amount, paid.currency)
        return await gate.hold(wanted, cast(JSONObject, source["source"]))

    async def _refused(
        self, writer: Writer, paid: PaidSpec, claimed: Claim, missing: Decimal, refusal: Refusal
    ) -> PayResult:
        """The payer is asked for another payment, unless none would help. One that has paid before is told nothing else."""
        if not refusal.can_retry:
            return PayResult("refused", code=refusal.code, message=refusal.message)
        told = claimed.fresh or not claimed.holds
        return await self._open(writer, paid, claimed, missing, refusal if told else None)

    async def _open(
        self, writer: Writer, paid: PaidSpec, claimed: Claim, amount: Decimal, refusal: Refusal | None
    ) -> PayResult:
        wait = derive_id(writer.run, "payment", claimed.place)
        expires = now() + timedelta(seconds=paid.wait_s)
        asked: JSONObject = {
            "amount": plain_amount(amount),
            "currency": paid.currency,
            "schemes": cast("list[JSONValue]", paid.schemes),
            "reason": TOP_UP if claimed.holds else paid.reason,
            "expires_at": int(expires.timestamp()),
        }
        events = [payment_required(wait, asked)]
        if refusal is not None:
            events.insert(0, payment_refused(known_secrets.json(refusal.to_json())))
        opened = await run_payments.open_wait(
            self._services.database, writer, wait, claimed.place, asked, expires, events
        )
        crash_point("pay.opened")
        self._services.announcer.changed(writer.key)
        return _told(opened)


def _hold_id(writer: Writer, claimed: Claim) -> str:
    return derive_id(writer.run, "hold", claimed.holds)


def _held(call: PayInput, claimed: Claim, held: Decimal) -> PayResult:
    """The run counts what it goes on from, too."""
    before = Decimal(call.spent) - claimed.spent
    return PayResult("held", covers=plain_amount(before + held))


def _told(claimed: Claim) -> PayResult:
    return PayResult(claimed.kind, "", claimed.wait, claimed.place, claimed.expires_s, claimed.asked or {})
