"""How a balance stands, and what came of an attempt to use it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, cast

from perdure.upp.json_value import JSONValue


class PaymentKind(StrEnum):
    """What came of it. `DONE` and `HELD` are new; `REPEATED` and `ENDED` were so before."""

    DONE = "done"
    REPEATED = "repeated"
    HELD = "held"
    ENDED = "ended"
    SHORT = "short"
    EXPIRED = "expired"
    REVOKED = "revoked"
    CLOSED = "closed"
    CONFLICT = "conflict"
    CURRENCY = "currency"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Standing:
    """A balance after an attempt to use it. Amounts are exact and in the account's currency.

    Attributes:
        kind: what came of the attempt.
        account: whose balance it is; "" if it is unknown.
        currency: ISO 4217, or any other word of the account's.
        balance: with what is held.
        held: of the balance, for work that is going on.
        expires_at: when the account's balance is worth nothing; None for never.
        charged: of a settlement: what was taken.
        short: of a settlement: what the balance did not cover.
    """

    kind: PaymentKind
    account: str = ""
    currency: str = ""
    balance: Decimal = Decimal(0)
    held: Decimal = Decimal(0)
    expires_at: datetime | None = None
    charged: Decimal = Decimal(0)
    short: Decimal = Decimal(0)

    @property
    def available(self) -> Decimal:
        """What can be spent now."""
        return self.balance - self.held


def read_standing(answer: JSONValue) -> Standing:
    """What one of the store's functions answered."""
    found = cast("dict[str, Any]", answer)
    kind, expires = PaymentKind(found["kind"]), found.get("expires_at")
    if "account" not in found:
        return Standing(kind)
    return Standing(
        kind,
        found["account"],
        found["currency"],
        Decimal(found["balance"]),
        Decimal(found["held"]),
        None if expires is None else datetime.fromisoformat(expires),
        Decimal(found.get("charged") or 0),
        Decimal(found.get("short") or 0),
    )
