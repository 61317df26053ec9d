"""What is kept of a balance while work goes on, and what the work cost in the end. Each happens once for a hold's id."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.payments.standing import Standing, read_standing
from perdure.uap.session_key import SessionKey


@dataclass(frozen=True, slots=True)
class HoldFor:
    """What is paid for.

    Attributes:
        id: unique in the tenant; derived, so that a second try asks for the same one.
        key: the session.
        run: the run.
        amount: what it may cost, in
        currency: the account must have this one.
    """

    id: str
    key: SessionKey
    run: str
    amount: Decimal
    currency: str = "USD"


async def read_token(database: Database, tenant: str, sha256: str) -> Standing:
    """How the account behind a token stands.

    Returns:
        `DONE`, or `EXPIRED`, `REVOKED` (the account may be closed, too) or `UNKNOWN` (no such token).
    """
    return read_standing(await database.call_for_tenant("payment_token_v1", tenant, sha256))


async def hold(database: Database, sha256: str, wanted: HoldFor) -> Standing:
    """Keep an amount for work that is about to begin.

    Args:
        database: the store.
        sha256: of the token.
        wanted: what is paid for.

    Returns:
        `HELD`, or `ENDED` if it was settled before; else nothing is kept: `SHORT`, `EXPIRED`, `REVOKED`, `UNKNOWN` (no
        such token), `CURRENCY` (the account has another one) or `CONFLICT` (the id is another run's).

    Raises:
        InvalidInput: the amount is negative, or no number.
    """
    amount = checked_amount(wanted.amount)
    asked = (sha256, wanted.id, amount, wanted.currency, wanted.key.session, wanted.run)
    return read_standing(await database.call_for_tenant("hold_v2", wanted.key.tenant, *asked))


async def settle_run(database: Database, tenant: str, run: str, cost: Decimal) -> Standing:
    """End all holds of a run and take what it cost, as far as the balances reach that nobody else holds.

    Returns:
        `ENDED`, with what was taken and what was short in all, and the account of the last hold. What was taken before
        counts: a second settlement of the same cost takes nothing. `UNKNOWN` if the run has no hold.

    Raises:
        InvalidInput: the cost is negative, or no number.
    """
    return read_standing(await database.call_for_tenant("settle_run_v1", tenant, run, checked_amount(cost)))


def token_sha256(token: str) -> str:
    """How a token is found: only its hash is stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def checked_amount(amount: Decimal) -> Decimal:
    """An amount that can be one. Raises InvalidInput."""
    if not amount.is_finite() or amount < 0:
        raise InvalidInput(f"an amount must be a number that is not negative, not {amount}")
    return amount
