"""Accounts, their tokens, and what moved their balances. Operators make them; a token's bearer pays from one."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Row, func, insert, select, update

from perdure.errors import InvalidInput, KeyConflict
from perdure.store.database import Database
from perdure.store.payments.holds import checked_amount, token_sha256
from perdure.store.payments.standing import PaymentKind, Standing, read_standing
from perdure.store.tables import payment_accounts, payment_entries, payment_tokens
from perdure.store.tenants import keep_tenant
from perdure.uap.ids import new_id

TOKEN_PREFIX = "ptok_"


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One account.

    Attributes:
        name: for people.
        currency: of all its amounts.
        balance: with what is held.
        held: of the balance, for work that is going on.
        closed_at: since when nothing is paid from it; None if something is.
    """

    tenant: str
    id: str
    name: str
    currency: str
    balance: Decimal
    held: Decimal
    created_at: datetime
    expires_at: datetime | None
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One movement of a balance.

    Attributes:
        kind: "top_up" or "charge".
        ref: what it was for: the reference of a top-up, the hold of a charge.
        amount: never negative.
        balance: after it.
    """

    ordinal: int
    kind: str
    ref: str
    amount: Decimal
    balance: Decimal
    session: str | None
    run: str | None
    at: datetime


async def open_account(
    database: Database, tenant: str, name: str, currency: str, *, expires_at: datetime | None = None
) -> AccountRow:
    """A new account without a balance.

    Raises:
        InvalidInput: the currency is no word of 1 to 16 printable characters.
    """
    if not 0 < len(currency) <= 16 or not currency.isprintable() or " " in currency:
        raise InvalidInput(f"the currency must be a word of 1 to 16 characters, such as USD, not {currency[:40]!r}")
    values = {"tenant_id": tenant, "id": new_id(), "name": name, "currency": currency, "expires_at": expires_at}
    statement = insert(payment_accounts).values(**values, created_at=func.clock_timestamp())
    async with database.transaction(tenant) as connection:
        await keep_tenant(connection, tenant)
        return _account((await connection.execute(statement.returning(payment_accounts))).one())


async def list_accounts(database: Database, tenant: str) -> list[AccountRow]:
    """A tenant's accounts, oldest first."""
    query = select(payment_accounts).where(payment_accounts.c.tenant_id == tenant)
    async with database.reading(tenant) as connection:
        rows = await connection.execute(query.order_by(payment_accounts.c.created_at, payment_accounts.c.id))
        return [_account(row) for row in rows]


async def top_up(database: Database, tenant: str, account: str, ref: str, amount: Decimal) -> Standing:
    """Add to a balance, once for a reference.

    Raises:
        InvalidInput: there is no such account, it is closed, or the amount is not above zero.
        KeyConflict: the reference was used with another amount.
    """
    if checked_amount(amount) == 0:
        raise InvalidInput("a top-up must be above zero")
    standing = read_standing(await database.call_for_tenant("top_up_v1", tenant, account, ref, amount))
    if standing.kind is PaymentKind.UNKNOWN:
        raise InvalidInput(f"tenant {tenant!r} has no payment account {account[:40]!r}")
    if standing.kind is PaymentKind.CLOSED:
        raise InvalidInput(f"payment account {account} is closed")
    if standing.kind is PaymentKind.CONFLICT:
        raise KeyConflict(f"the reference {ref[:80]!r} was used before with another amount")
    return standing


async def close_account(database: Database, tenant: str, account: str) -> AccountRow:
    """Let nothing more be paid from an account; what is held is settled still. Harmless if it is closed.

    Raises:
        InvalidInput: there is no such account.
    """
    table = payment_accounts
    change = (
        update(table)
        .where(table.c.tenant_id == tenant, table.c.id == account)
        .values(closed_at=func.coalesce(table.c.closed_at, func.clock_timestamp()))
        .returning(table)
    )
    async with database.transaction(tenant) as connection:
        row = (await connection.execute(change)).first()
        if row is None:
            raise InvalidInput(f"tenant {tenant!r} has no payment account {account[:40]!r}")
        return _account(row)


async def issue_token(database: Database, tenant: str, account: str, *, expires_at: datetime | None = None) -> str:
    """A new token that pays from an account. It is returned once: only its hash is stored.

    Raises:
        InvalidInput: there is no such account.
    """
    token = f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}"
    values = {"tenant_id": tenant, "sha256": token_sha256(token), "account": account, "expires_at": expires_at}
    known = select(payment_accounts.c.id).where(
        payment_accounts.c.tenant_id == tenant, payment_accounts.c.id == account
    )
    async with database.transaction(tenant) as connection:
        if await connection.scalar(known) is None:
            raise InvalidInput(f"tenant {tenant!r} has no payment account {account[:40]!r}")
        await connection.execute(insert(payment_tokens).values(**values, made_at=func.clock_timestamp()))
    return token


async def revoke_token(database: Database, tenant: str, token: str) -> bool:
    """Make a token worthless, for good; whether there is such a token."""
    table = payment_tokens
    change = (
        update(table)
        .where(table.c.tenant_id == tenant, table.c.sha256 == token_sha256(token))
        .values(revoked_at=func.coalesce(table.c.revoked_at, func.clock_timestamp()))
        .returning(table.c.account)
    )
    async with database.transaction(tenant) as connection:
        return await connection.scalar(change) is not None


async def list_entries(
    database: Database, tenant: str, account: str, *, after: int = 0, limit: int = 100
) -> list[EntryRow]:
    """What moved an account's balance, oldest first, behind an ordinal."""
    table = payment_entries
    query = select(table).where(table.c.tenant_id == tenant, table.c.account == account, table.c.ordinal > after)
    async with database.reading(tenant) as connection:
        rows = await connection.execute(query.order_by(table.c.ordinal).limit(limit))
        return [
            EntryRow(row.ordinal, row.kind, row.ref, row.amount, row.balance, row.for_session, row.for_run, row.at)
            for row in rows
        ]


def _account(row: Row[Any]) -> AccountRow:
    return AccountRow(
        row.tenant_id, row.id, row.name, row.currency, row.balance, row.held, row.created_at, row.expires_at,
        row.closed_at,
    )  # fmt: skip
