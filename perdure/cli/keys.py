"""`perdure keys`: API keys of a tenant. They are made at the database, by whoever can reach it; no route makes one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from perdure.api.principal import Scope
from perdure.cli.connection import open_store
from perdure.cli.output import put, put_json, put_table, say
from perdure.cli.parameters import AsJson, checked_text
from perdure.config import load_settings
from perdure.errors import InvalidInput
from perdure.runtime.shown import iso
from perdure.store.api_keys import KeyRow, create_key, list_keys, revoke_key
from perdure.upp.json_value import JSONObject

app = typer.Typer(help="Create, list and revoke the API keys of a tenant.", no_args_is_help=True, add_completion=False)

Tenant = Annotated[str | None, typer.Option(help="Whose keys; the tenant of the settings by default.")]
_MAX_DAYS = 36_500


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses it; shown in lists and records.")],
    scope: Annotated[list[Scope] | None, typer.Option(help="What it may do; several if need be. admin: all.")] = None,
    tenant: Tenant = None,
    days: Annotated[int | None, typer.Option(min=1, max=_MAX_DAYS, help="Let it expire after so many days.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and show it, once: only its hash is kept."""
    if not scope:
        raise InvalidInput("say what the key may do: --scope read, run, approve or admin; several if need be")
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    row, key = asyncio.run(_create(checked_text(name, "NAME"), scope, _tenant(tenant), expires))
    if as_json:
        put_json({**_key_json(row), "key": key})
        return
    put(f"{key}\n")
    say("keep it now; it cannot be shown again")


@app.command("list")
def list_all(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List a tenant's keys, oldest first, with what they may do and when they were last used."""
    rows = asyncio.run(_list(_tenant(tenant)))
    if as_json:
        put_json({"keys": [_key_json(row) for row in rows]})
    elif not rows:
        say("the tenant has no keys")
    else:
        columns = ("key", "name", "scopes", "created at", "expires at", "last used at", "revoked at")
        put_table(columns, [_cells(row) for row in rows])


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, the part between pdk_ and the second _.")],
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Make a key worthless, for good. Servers notice within seconds."""
    row = asyncio.run(_revoke(_tenant(tenant), key))
    if as_json:
        put_json(_key_json(row))
    else:
        put(f"key {row.id} ({row.name}) is revoked\n")


def _tenant(given: str | None) -> str:
    return load_settings(tenant=given).tenant


async def _create(name: str, scopes: list[Scope], tenant: str, expires: datetime | None) -> tuple[KeyRow, str]:
    wanted = [scope.value for scope in Scope if scope in scopes]
    async with open_store() as store:
        return await create_key(store.database, tenant, name, wanted, expires_at=expires)


async def _list(tenant: str) -> list[KeyRow]:
    async with open_store() as store:
        return await list_keys(store.database, tenant)


async def _revoke(tenant: str, key: str) -> KeyRow:
    async with open_store() as store:
        return await revoke_key(store.database, tenant, key)


def _key_json(row: KeyRow) -> JSONObject:
    return {
        "id": row.id,
        "tenant": row.tenant,
        "name": row.name,
        "scopes": [*row.scopes],
        "created_at": iso(row.created_at),
        "expires_at": iso(row.expires_at),
        "last_used_at": iso(row.last_used_at),
        "revoked_at": iso(row.revoked_at),
    }


def _cells(row: KeyRow) -> list[object]:
    times = (row.created_at, row.expires_at, row.last_used_at, row.revoked_at)
    return [row.id, row.name, " ".join(row.scopes), *(iso(at) for at in times)]
