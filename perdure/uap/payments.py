"""What an agent's runs cost those who call them, and the port of what takes the money: a payment gate.

A gate is asked by what it is told alone, with ids that are derived: whatever is asked again is answered as before. The
default one is `perdure.store.payments.ledger_gate.LedgerGate`, of prepaid balances in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Literal, Protocol, TypeAlias, cast

from perdure.uap.spec import PaidSpec
from perdure.upp.json_value import JSONObject

LEDGER = "ledger"
"""The name of the default gate."""

RefusalCode: TypeAlias = Literal[
    "insufficient_balance", "token_expired", "token_invalid", "payment_failed", "rate_limited", "mandate_revoked"
]
"""Why a payment is refused. Source: UAMP 1.0, section 7.2."""


@dataclass(frozen=True, slots=True)
class PaymentScheme:
    """One way to pay. Source: UAMP 1.0, section 7.2.

    Attributes:
        scheme: "token", "crypto", "card" or "ap2".
        network: where it is paid.
        address: whom it is paid to.
        min_amount: the least that is taken, a decimal as text.
        max_amount: the most.
    """

    scheme: str
    network: str | None = None
    address: str | None = None
    min_amount: str | None = None
    max_amount: str | None = None

    def to_json(self) -> JSONObject:
        """The scheme as a requirement lists it."""
        named = {
            "scheme": self.scheme,
            "network": self.network,
            "address": self.address,
            "min_amount": self.min_amount,
            "max_amount": self.max_amount,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SubmittedPayment:
    """What a client pays with. Its secrets are shown nowhere and stored nowhere.

    Attributes:
        scheme: the way it pays.
        token: of scheme "token".
        proof: of a payment that was made elsewhere.
        credential: of AP2.
        amount: what the client means to pay, a decimal as text.
        network: where.
    """

    scheme: str
    token: str | None = field(default=None, repr=False)
    proof: str | None = field(default=None, repr=False)
    credential: JSONObject | str | None = field(default=None, repr=False)
    amount: str | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """What a payer has left.

    Attributes:
        currency: of the amount.
        available: without what is kept for work that is going on.
        expires_at: when it is worth nothing; None for never.
    """

    currency: str
    available: Decimal
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not paid.

    Attributes:
        code: for programs.
        message: for people.
        can_retry: another payment, or the same one later, may be taken.
        balance_required: what is needed, where that is why.
        balance_current: what there is.
    """

    code: RefusalCode
    message: str
    can_retry: bool = True
    balance_required: Decimal | None = None
    balance_current: Decimal | None = None

    def to_json(self) -> JSONObject:
        """The refusal as the event log tells it."""
        told: JSONObject = {"code": self.code, "message": self.message, "can_retry": self.can_retry}
        for name, amount in (("balance_required", self.balance_required), ("balance_current", self.balance_current)):
            if amount is not None:
                told[name] = plain_amount(amount)
        return told

    @classmethod
    def from_json(cls, told: JSONObject) -> Refusal:
        """Read what `to_json` wrote."""
        return cls(
            cast(RefusalCode, told["code"]),
            str(told["message"]),
            bool(told["can_retry"]),
            to_amount(told.get("balance_required")),
            to_amount(told.get("balance_current")),
        )


@dataclass(frozen=True, slots=True)
class PaymentHold:
    """An amount to be kept for a run.

    Attributes:
        tenant: whose run it is.
        session: its session.
        run: the run.
        id: of the hold; the same one again is the same hold.
        amount: what is to be kept.
        currency: of the amount.
    """

    tenant: str
    session: str
    run: str
    id: str
    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a run's holds.

    Attributes:
        charged: what was taken, of all of them together.
        short: what the run cost besides, and no balance covered.
        balance: of the last payer, after it; None if nothing was held.
    """

    charged: Decimal
    short: Decimal
    balance: Balance | None


class PaymentGate(Protocol):
    """What takes the money. Each call may come again, in another process too, and must then answer as before.

    One that cannot be reached raises `ServerUnavailable` and is asked again; it has 10 s for an answer. A source is what
    stands for a payment from when it was accepted: JSON that is stored and seen, so no secret may be in it.
    """

    @property
    def name(self) -> str:
        """Its name, frozen into the specs of agents: not "ledger", and the same from deploy to deploy."""
        ...

    @property
    def schemes(self) -> Sequence[PaymentScheme]:
        """The ways to pay that it takes; at least one."""
        ...

    async def accept(
        self, tenant: str, payment: SubmittedPayment, *, amount: Decimal | None, currency: str | None
    ) -> JSONObject | Refusal:
        """Look at a payment, and say what stands for it; nothing is taken yet.

        Args:
            tenant: whose agent is paid.
            payment: of one of the schemes.
            amount: what is about to be held; None if it is not known yet.
            currency: that the agent is paid in; None if it is not known yet.
        """
        ...

    async def hold(self, wanted: PaymentHold, source: JSONObject) -> Balance | Refusal:
        """Keep an amount of what a source stands for."""
        ...

    async def settle(self, tenant: str, run: str, cost: Decimal) -> Settled:
        """End all holds of a run and take what it cost, once. A run without holds costs nothing."""
        ...

    async def balance(self, tenant: str, source: JSONObject) -> Balance | Refusal:
        """What the payer behind a source has."""
        ...


LEDGER_SCHEMES = (PaymentScheme("token"),)
"""The ways to pay of the default gate."""


def to_amount(value: object) -> Decimal | None:
    """The amount that a decimal or its text means; None if it means none that is at least 0."""
    try:
        amount = Decimal(value) if isinstance(value, Decimal | str) else None
    except InvalidOperation:
        return None
    return amount if amount is not None and amount.is_finite() and amount >= 0 else None


def plain_amount(amount: Decimal) -> str:
    """An amount digit by digit: no exponent, no zeros at its end beyond two places."""
    text = format(amount, "f")
    whole, _, rest = text.partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest.ljust(2, '0')}" if rest else f"{whole}.00"


def ways_to_pay(paid: PaidSpec) -> list[dict[str, str]]:
    """The schemes, each with the amount and its currency, as an answer of status 402 lists them."""
    return [{**item, "amount": paid.hold, "currency": paid.currency} for item in paid.schemes]


def is_source(value: object) -> bool:
    """Whether it can be what stands for a payment: {"scheme": word, "source": object}."""
    if not isinstance(value, dict):
        return False
    given = cast("dict[str, object]", value)
    return set(given) == {"scheme", "source"} and isinstance(given["scheme"], str) and isinstance(given["source"], dict)
