"""Settling: what a run has cost is taken once it has ended, and what was held above it is free again."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from perdure.errors import GateMissing
from perdure.store.database import Database
from perdure.store.payments.run_payments import RunPayment, note_settled, read_run_payment
from perdure.testing.crash import crash_point
from perdure.uap.events import payment_settled
from perdure.uap.payments import PaymentGate, Settled
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


async def settle_payments(database: Database, gates: Mapping[str, PaymentGate], key: SessionKey, run: str) -> bool:
    """Settle a run that has ended; safe to repeat, by several at once.

    Args:
        database: the store.
        gates: by name.
        key: the run's session, which may be gone.
        run: the run.

    Returns:
        Whether its log was told something now.

    Raises:
        GateMissing: its gate is not among them.
    """
    paid = await read_run_payment(database, key, run)
    if paid is None or paid.is_open:
        return False
    settled = Settled(Decimal(0), Decimal(0), None)
    if paid.holds:
        crash_point("settle.settling")
        settled = await gate_of(gates, paid.gate).settle(key.tenant, run, paid.cost)
        crash_point("settle.settled")
    noted = await note_settled(database, key, run, settled.charged, settled.short, _events(paid, settled))
    crash_point("settle.noted")
    return noted and settled.balance is not None


def gate_of(gates: Mapping[str, PaymentGate], name: str) -> PaymentGate:
    """The gate of that name.

    Raises:
        GateMissing: this process does not have it.
    """
    found = gates.get(name)
    if found is None:
        raise GateMissing(
            f"this process has no payment gate {name!r}; start it with the app that has it: App(..., gate=...), "
            "and the API by `perdure serve --app MODULE:APP`"
        )
    return found


def _events(paid: RunPayment, settled: Settled) -> list[JSONObject]:
    if settled.balance is None:
        return []
    is_low = paid.low_balance is not None and settled.balance.available <= paid.low_balance
    return [payment_settled(settled, is_low=is_low)]
