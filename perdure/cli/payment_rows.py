"""Accounts and their movements as `perdure payments` shows them."""

from __future__ import annotations

from perdure.runtime.shown import iso
from perdure.store.payments.accounts import AccountRow, EntryRow
from perdure.uap.payments import plain_amount
from perdure.upp.json_value import JSONObject


def account_json(row: AccountRow) -> JSONObject:
    """An account."""
    return {
        "id": row.id,
        "tenant": row.tenant,
        "name": row.name,
        "currency": row.currency,
        "balance": plain_amount(row.balance),
        "held": plain_amount(row.held),
        "created_at": iso(row.created_at),
        "expires_at": iso(row.expires_at),
        "closed_at": iso(row.closed_at),
    }


def account_cells(row: AccountRow) -> list[object]:
    """The same as a row of a table."""
    times = (row.created_at, row.expires_at, row.closed_at)
    return [row.id, row.name, plain_amount(row.balance), plain_amount(row.held), row.currency, *map(iso, times)]


def entry_json(row: EntryRow) -> JSONObject:
    """A movement of a balance."""
    return {
        "ordinal": row.ordinal,
        "kind": row.kind,
        "ref": row.ref,
        "amount": plain_amount(row.amount),
        "balance": plain_amount(row.balance),
        "session": row.session,
        "run": row.run,
        "at": iso(row.at),
    }


def entry_cells(row: EntryRow) -> list[object]:
    """The same as a row of a table."""
    amounts = [plain_amount(row.amount), plain_amount(row.balance)]
    return [row.ordinal, row.kind, *amounts, row.run, row.session, row.ref, iso(row.at)]
