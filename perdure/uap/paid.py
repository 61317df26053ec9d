"""How an agent is paid for, as an app says it, and the gate through which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.uap.payments import LEDGER, LEDGER_SCHEMES, PaymentGate, plain_amount, to_amount
from perdure.uap.spec import PaidSpec


@dataclass(frozen=True, slots=True)
class Paid:
    """How the runs of an agent are paid for.

    Attributes:
        hold: kept of the payer's balance before a run begins, and again each time that it has used what is kept; a
            decimal, or its text.
        currency: of all amounts: that of the table of prices.
        wait_s: seconds that a run waits for a payment before it fails.
        low_balance: the payer is warned from this balance on; None warns of none.
        reason: what the payer is told it is for.
    """

    hold: Decimal | str
    currency: str = "USD"
    wait_s: float = 3600.0
    low_balance: Decimal | str | None = None
    reason: str = "llm_usage"

    def __post_init__(self) -> None:
        if to_amount(self.hold) in (None, Decimal(0)):
            raise InvalidInput(f"hold is {str(self.hold)[:40]!r}; it must be a decimal above 0, such as '0.05'")
        if self.low_balance is not None and to_amount(self.low_balance) is None:
            raise InvalidInput(f"low_balance is {str(self.low_balance)[:40]!r}; it must be a decimal of at least 0")
        if not self.currency or len(self.currency) > 16 or not self.currency.isprintable() or " " in self.currency:
            raise InvalidInput(f"currency is {self.currency[:40]!r}; it must be a word such as USD")
        if isinstance(cast(object, self.wait_s), bool) or not 0 < self.wait_s <= timedelta(days=365).total_seconds():
            raise InvalidInput(f"wait_s is {self.wait_s!r}; it must be seconds, above 0 and at most a year")

    def to_spec(self, gate: PaymentGate | None) -> PaidSpec:
        """The policy as it is frozen into an agent's spec; None is the default gate."""
        low = "" if self.low_balance is None else plain_amount(cast(Decimal, to_amount(self.low_balance)))
        return PaidSpec(
            hold=plain_amount(cast(Decimal, to_amount(self.hold))),
            currency=self.currency,
            wait_s=float(self.wait_s),
            low_balance=low,
            reason=self.reason,
            gate=LEDGER if gate is None else gate.name,
            schemes=[
                cast("dict[str, Any]", item.to_json()) for item in (LEDGER_SCHEMES if gate is None else gate.schemes)
            ],
        )


def check_gate(gate: PaymentGate) -> None:
    """See that a gate can be used. Raises InvalidInput."""
    if not gate.name or gate.name == LEDGER:
        raise InvalidInput(f"a payment gate needs a name of its own; {LEDGER!r} is the default one's")
    if not gate.schemes:
        raise InvalidInput(f"payment gate {gate.name!r} takes no scheme; it must declare at least one")
