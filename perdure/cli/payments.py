"""`perdure payments`: prepaid balances of a tenant, the tokens that pay from them, and paying for a run that waits.

Accounts and tokens are made at the database, by whoever can reach it; no route makes one.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import put, put_json, put_table, say
from perdure.cli.parameters import AsJson, checked_run_id, checked_text
from perdure.cli.payment_rows import account_cells, account_json, entry_cells, entry_json
from perdure.cli.waits import By, user_name
from perdure.config import load_settings
from perdure.errors import InvalidInput, PaymentNeeded
from perdure.store.payments import accounts as stored
from perdure.store.payments.accounts import AccountRow, EntryRow
from perdure.store.payments.ledger_gate import known_gates
from perdure.store.payments.standing import Standing
from perdure.uap.ids import new_id
from perdure.uap.payments import Refusal, SubmittedPayment, plain_amount
from perdure.upp.json_value import JSONObject

app = typer.Typer(
    help="Open and fill prepaid balances, issue tokens that pay from them, see what moved them, and pay for a run.",
    no_args_is_help=True,
    add_completion=False,
)

Tenant = Annotated[str | None, typer.Option(help="Whose; the tenant of the settings by default.")]
Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")]
Days = Annotated[int | None, typer.Option(min=1, max=36_500, help="Let it expire after so many days.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="PERDURE_PAYMENT_TOKEN", help="The token; else it is read from stdin, where nobody else sees it."
    ),
]


@app.command("open")
def open_account(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose balance it is; for people.")],
    currency: Annotated[str, typer.Option(help="Of all its amounts: that of the table of prices.")] = "USD",
    days: Days = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Open an account without a balance, and show its id."""
    row = asyncio.run(_open(_tenant(tenant), checked_text(name, "NAME"), currency, _after(days)))
    if as_json:
        put_json(account_json(row))
    else:
        put(f"{row.id}\n")


@app.command("accounts")
def list_accounts(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List a tenant's accounts, oldest first, with what they have and what of it is held for work that is going on."""
    rows = asyncio.run(_accounts(_tenant(tenant)))
    if as_json:
        put_json({"accounts": [account_json(row) for row in rows]})
    elif not rows:
        say("the tenant has no payment accounts; `perdure payments open NAME` makes one")
    else:
        columns = ("account", "name", "balance", "held", "currency", "created at", "expires at", "closed at")
        put_table(columns, [account_cells(row) for row in rows])


@app.command("top-up")
def top_up(
    account: Account,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="A decimal above 0, such as 10.00.")],
    ref: Annotated[
        str | None, typer.Option(help="What it is for; the same again changes nothing. Drawn if it is not given.")
    ] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Add to an account's balance, once for a reference."""
    given = new_id() if ref is None else checked_text(ref, "--ref")
    standing = asyncio.run(_top_up(_tenant(tenant), account, given, _amount(amount)))
    if as_json:
        told: JSONObject = {
            "account": account,
            "balance": plain_amount(standing.balance),
            "currency": standing.currency,
        }
        put_json({**told, "kind": standing.kind.value})
    else:
        put(f"the balance is {plain_amount(standing.balance)} {standing.currency}\n")


@app.command()
def issue(account: Account, days: Days = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Issue a token that pays from an account, and show it, once: only its hash is kept."""
    token = asyncio.run(_issue(_tenant(tenant), account, _after(days)))
    if as_json:
        put_json({"account": account, "token": token})
        return
    put(f"{token}\n")
    say("keep it now; it cannot be shown again")


@app.command()
def revoke(token: Token = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Make a token worthless, for good. What is held by it is settled still."""
    known = asyncio.run(_revoke(_tenant(tenant), _read_token(token)))
    if not known:
        raise InvalidInput("the tenant has no such token; nothing was changed")
    if as_json:
        put_json({"revoked": True})
    else:
        put("the token is revoked\n")


@app.command()
def close(account: Account, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Let nothing more be paid from an account; what is held is settled still."""
    row = asyncio.run(_close(_tenant(tenant), account))
    if as_json:
        put_json(account_json(row))
    else:
        put(f"account {row.id} ({row.name}) is closed; {plain_amount(row.balance)} {row.currency} are left in it\n")


@app.command()
def entries(
    account: Account,
    after: Annotated[int, typer.Option(min=0, help="Only those behind this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Show what moved an account's balance, oldest first: top-ups, and what runs cost."""
    rows = asyncio.run(_entries(_tenant(tenant), account, after, limit))
    if as_json:
        put_json({"entries": [entry_json(row) for row in rows]})
    elif not rows:
        say("nothing has moved the balance")
    else:
        columns = ("no.", "kind", "amount", "balance", "run", "session", "reference", "at")
        put_table(columns, [entry_cells(row) for row in rows])


@app.command()
def pay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that waits for its payment.")],
    token: Token = None,
    by: By = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Pay for a run that waits for it, with a token; the run goes on."""
    ident, who = checked_run_id(run), user_name() if by is None else checked_text(by, "--by")
    asyncio.run(_pay(_tenant(tenant), ident, _read_token(token), who))
    if as_json:
        put_json({"run": ident, "paid": True})
    else:
        put(f"paid; run {ident} goes on\n")


def _tenant(given: str | None) -> str:
    return load_settings(tenant=given).tenant


def _after(days: int | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) + timedelta(days=days)


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"AMOUNT is {text[:40]!r}; it must be a decimal such as 10.00") from None


def _read_token(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        given = str(typer.prompt("token", hide_input=True, err=True))
    text = (sys.stdin.readline() if given is None else given).strip()
    if not text:
        raise InvalidInput("no token: give it on stdin, or in PERDURE_PAYMENT_TOKEN")
    return text


async def _open(tenant: str, name: str, currency: str, expires_at: datetime | None) -> AccountRow:
    async with open_store() as store:
        return await stored.open_account(store.database, tenant, name, currency, expires_at=expires_at)


async def _accounts(tenant: str) -> list[AccountRow]:
    async with open_store() as store:
        return await stored.list_accounts(store.database, tenant)


async def _top_up(tenant: str, account: str, ref: str, amount: Decimal) -> Standing:
    async with open_store() as store:
        return await stored.top_up(store.database, tenant, account, ref, amount)


async def _issue(tenant: str, account: str, expires_at: datetime | None) -> str:
    async with open_store() as store:
        return await stored.issue_token(store.database, tenant, account, expires_at=expires_at)


async def _revoke(tenant: str, token: str) -> bool:
    async with open_store() as store:
        return await stored.revoke_token(store.database, tenant, token)


async def _close(tenant: str, account: str) -> AccountRow:
    async with open_store() as store:
        return await stored.close_account(store.database, tenant, account)


async def _entries(tenant: str, account: str, after: int, limit: int) -> list[EntryRow]:
    async with open_store() as store:
        return await stored.list_entries(store.database, tenant, account, after=after, limit=limit)


async def _pay(tenant: str, run: str, token: str, by: str) -> None:
    from perdure.runtime.payments import Payments  # Temporal's client takes long to import

    async with open_sessions(tenant) as sessions:
        payments = Payments(sessions, known_gates(sessions.database, None))
        taken = await payments.submit(run, SubmittedPayment("token", token=token), by=by)
    if taken is None:
        raise InvalidInput(f"run {run} waits for no payment; `perdure waits list` shows what waits")
    if isinstance(taken, Refusal):
        raise PaymentNeeded(taken.message, code=taken.code, can_retry=taken.can_retry)
