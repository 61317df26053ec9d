"""The default payment gate: prepaid balances in this database, paid from by tokens."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from perdure.store.database import Database
from perdure.store.payments.holds import HoldFor, hold, read_token, settle_run, token_sha256
from perdure.store.payments.standing import PaymentKind, Standing
from perdure.uap.payments import (
    LEDGER,
    LEDGER_SCHEMES,
    Balance,
    PaymentGate,
    PaymentHold,
    PaymentScheme,
    Refusal,
    Settled,
    SubmittedPayment,
    plain_amount,
)
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


class LedgerGate:
    """See `PaymentGate`. A source is {"sha256"} of the token."""

    def __init__(self, database: Database) -> None:
        """Take money in `database`."""
        self._database = database

    @property
    def name(self) -> str:
        """See `PaymentGate.name`."""
        return LEDGER

    @property
    def schemes(self) -> Sequence[PaymentScheme]:
        """See `PaymentGate.schemes`."""
        return LEDGER_SCHEMES

    async def accept(
        self, tenant: str, payment: SubmittedPayment, *, amount: Decimal | None, currency: str | None
    ) -> JSONObject | Refusal:
        """See `PaymentGate.accept`. What stands for a token is its hash."""
        if not payment.token:
            return Refusal("token_invalid", "a payment of scheme token needs its token")
        sha256 = token_sha256(payment.token)
        standing = await read_token(self._database, tenant, sha256)
        refusal = _refusal(standing, amount, currency or standing.currency)
        if refusal is not None:
            return refusal
        if currency is not None and standing.currency != currency:
            return _other_currency(standing, currency)
        if amount is not None and standing.available < amount:
            return _short(standing, amount)
        return {"sha256": sha256}

    async def hold(self, wanted: PaymentHold, source: JSONObject) -> Balance | Refusal:
        """See `PaymentGate.hold`."""
        key = SessionKey(wanted.tenant, wanted.session)
        kept = HoldFor(wanted.id, key, wanted.run, wanted.amount, wanted.currency)
        standing = await hold(self._database, str(source.get("sha256")), kept)
        refusal = _refusal(standing, wanted.amount, wanted.currency)
        return _balance(standing) if refusal is None else refusal

    async def settle(self, tenant: str, run: str, cost: Decimal) -> Settled:
        """See `PaymentGate.settle`."""
        standing = await settle_run(self._database, tenant, run, cost)
        known = standing.kind is not PaymentKind.UNKNOWN
        return Settled(standing.charged, standing.short, _balance(standing) if known else None)

    async def balance(self, tenant: str, source: JSONObject) -> Balance | Refusal:
        """See `PaymentGate.balance`."""
        standing = await read_token(self._database, tenant, str(source.get("sha256")))
        return _refusal(standing, None, standing.currency) or _balance(standing)


def known_gates(database: Database, custom: PaymentGate | None) -> dict[str, PaymentGate]:
    """The gates of a process by name: the default one, and its app's own if it has one."""
    gates: dict[str, PaymentGate] = {LEDGER: LedgerGate(database)}
    return gates if custom is None else {**gates, custom.name: custom}


def _balance(standing: Standing) -> Balance:
    return Balance(standing.currency, standing.available, standing.expires_at)


def _refusal(standing: Standing, amount: Decimal | None, currency: str) -> Refusal | None:
    match standing.kind:
        case PaymentKind.HELD | PaymentKind.DONE:
            return None
        case PaymentKind.SHORT:
            return _short(standing, amount)
        case PaymentKind.EXPIRED:
            return Refusal("token_expired", "the payment token, or the balance behind it, has expired; use another one")
        case PaymentKind.UNKNOWN | PaymentKind.REVOKED:
            return Refusal("token_invalid", "no valid payment token; use one that `perdure payments issue` has made")
        case PaymentKind.CURRENCY:
            return _other_currency(standing, currency)
        case _:
            return Refusal("payment_failed", "the amount was held before, for work that has ended", can_retry=False)


def _short(standing: Standing, amount: Decimal | None) -> Refusal:
    there = plain_amount(standing.available)
    needed = "" if amount is None else f", and {plain_amount(amount)} is needed"
    return Refusal(
        "insufficient_balance",
        f"the balance has {there} {standing.currency} that is free{needed}; top it up, or pay with another token",
        balance_required=amount,
        balance_current=standing.available,
    )


def _other_currency(standing: Standing, currency: str) -> Refusal:
    return Refusal(
        "payment_failed",
        f"the token's balance is in {standing.currency}, and the agent is paid in {currency}; use another",
    )
