"""`perdure uamp keys`: the keys that sign for the agents that are served here. They are made here, and by no route."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from perdure.cli.connection import Store, open_store
from perdure.cli.output import put, put_json, put_table, say
from perdure.cli.parameters import AsJson
from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.did_web import split_did_url
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import PUBLISHED_BEFORE, OwnKeys, signing_first
from perdure.runtime.shown import iso
from perdure.store.envelope_keys import (
    EnvelopeKeyRow,
    delete_envelope_key,
    read_envelope_keys,
    retire_envelope_key,
)
from perdure.upp.json_value import JSONObject

app = typer.Typer(
    help="List, follow up, retire and forget the keys that sign for agents.", no_args_is_help=True, add_completion=False
)

Kid = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `list` shows it: a DID, # and its name.")]


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the keys of all agents, newest first, and say which one of each signs."""
    _show(asyncio.run(_read()), as_json=as_json)


@app.command()
def rotate(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, or a DID of it as `list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Make keys that follow an agent's present ones. They are published at once and sign once everybody can know them.

    Of a name, all DIDs of the agent get one; of a DID, that one.
    """
    rows = asyncio.run(_rotate(agent))
    _show(rows, as_json=as_json)
    if not as_json and any(row.made_at <= _now() - PUBLISHED_BEFORE for row in rows):
        minutes = PUBLISHED_BEFORE.total_seconds() / 60
        say(f"the new key signs in {minutes:g} minutes; the others verify what they signed until they are forgotten")


@app.command()
def retire(key: Kid, as_json: AsJson = False) -> None:
    """Have a key sign no more, from now on. It stays published, so that what it has signed can be verified."""
    asyncio.run(_retire(key))
    if as_json:
        put_json({"retired": key})
    else:
        put(f"key {key} is retired\n")


@app.command()
def forget(key: Kid, as_json: AsJson = False) -> None:
    """Delete a key that is retired: nobody believes then what is signed with it. Others may remember it for minutes."""
    asyncio.run(_forget(key))
    if as_json:
        put_json({"forgotten": key})
    else:
        put(f"key {key} is forgotten\n")


def _now() -> datetime:
    return datetime.now(UTC)


async def _read() -> list[EnvelopeKeyRow]:
    async with open_store() as store:
        return await read_envelope_keys(store.database, store.tenant)


async def _rotate(agent: str) -> list[EnvelopeKeyRow]:
    async with open_store() as store:
        settings = store.settings
        own = OwnAgents(store.database, store.tenant, settings.uamp_host or f"localhost:{settings.api_port}")
        there = await own.dids()
        kept = {row.did for row in await read_envelope_keys(store.database, store.tenant)}
        wanted = [item.did for item in there if agent in (item.did, item.agent)] or [
            did for did in kept if did == agent
        ]
        if not wanted:
            known = ", ".join(item.did for item in there) or "none; start one with `perdure worker MODULE:APP`"
            raise InvalidInput(f"no agent here is {agent!r}; there are {known}")
        keys = OwnKeys(store.database, store.tenant, clock=_now)
        return [row for did in wanted for row in await keys.rotate(did)]


async def _retire(kid: str) -> None:
    async with open_store() as store:
        row, others = await _find(store, kid)
        if row.retired_at is not None:
            raise InvalidInput(f"key {kid} is retired already")
        if all(other.retired_at is not None for other in others):
            raise InvalidInput(
                f"key {kid} is the only one that signs; let another follow it: `perdure uamp keys rotate`"
            )
        await retire_envelope_key(store.database, store.tenant, row.did, row.id, now=_now())


async def _forget(kid: str) -> None:
    async with open_store() as store:
        row, _ = await _find(store, kid)
        if row.retired_at is None:
            raise InvalidInput(f"key {kid} may sign still; retire it first: `perdure uamp keys retire {kid}`")
        await delete_envelope_key(store.database, store.tenant, row.did, row.id)


async def _find(store: Store, kid: str) -> tuple[EnvelopeKeyRow, list[EnvelopeKeyRow]]:
    """A key, and the others of its agent."""
    did, _ = split_did_url(kid)
    rows = await read_envelope_keys(store.database, store.tenant, did)
    found = next((row for row in rows if row.kid == kid), None)
    if found is None:
        raise InvalidInput(f"there is no key {kid!r}; `perdure uamp keys list` shows those there are")
    return found, [row for row in rows if row is not found]


def _show(rows: list[EnvelopeKeyRow], *, as_json: bool) -> None:
    shown: list[JSONObject] = [_shown(row, rows) for row in rows]
    if as_json:
        put_json({"keys": [*shown]})
    elif not rows:
        say("there is no key yet; the first envelope or document that is signed makes one")
    else:
        columns = ("key", "made at", "retired at", "signs")
        cells = [[row["kid"], row["made_at"], row["retired_at"] or "", "yes" if row["signs"] else ""] for row in shown]
        put_table(columns, cells)


def _shown(row: EnvelopeKeyRow, rows: list[EnvelopeKeyRow]) -> JSONObject:
    able = [other for other in rows if other.did == row.did and other.retired_at is None]
    return {
        "kid": row.kid,
        "did": row.did,
        "made_at": iso(row.made_at),
        "retired_at": None if row.retired_at is None else iso(row.retired_at),
        "signs": bool(able) and signing_first(able, _now())[0] is row,
    }
