"""Payments: what an agent's runs cost their callers, and the port of what takes the money.

from perdure.payments import Paid, PaymentGate
"""

from __future__ import annotations

from perdure.store.payments.ledger_gate import LedgerGate
from perdure.uap.paid import Paid
from perdure.uap.payments import (
    Balance,
    PaymentGate,
    PaymentHold,
    PaymentScheme,
    Refusal,
    Settled,
    SubmittedPayment,
)

__all__ = [
    "Balance",
    "LedgerGate",
    "Paid",
    "PaymentGate",
    "PaymentHold",
    "PaymentScheme",
    "Refusal",
    "Settled",
    "SubmittedPayment",
]
