"""`perdure doctor`: is all well, and if not, what to do. And the repair of a session's index rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Annotated

import typer
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.cli import checks, exits
from perdure.cli.checks import Check
from perdure.cli.connection import known_addresses, open_sessions
from perdure.cli.output import put, put_fields, put_json
from perdure.cli.parameters import AsJson
from perdure.config import Settings, load_settings
from perdure.errors import SchemaOutdated, ServerUnavailable
from perdure.migrations.schema import HEAD_REVISION, check_schema
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database, is_away
from perdure.uap.session_key import SessionKey, checked_session_id
from perdure.upp.json_value import JSONObject

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    rebuild: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Make a session's index rows anew from its history.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check servers, schema and runs; exit with 1 if something is wrong."""
    if rebuild is not None:
        return asyncio.run(_rebuild(checked_session_id(rebuild), as_json=as_json))
    return asyncio.run(_examine(load_settings(), as_json=as_json))


async def _examine(settings: Settings, *, as_json: bool) -> int:
    done = [check async for check in _checks(settings)]
    ok = all(check.ok for check in done)
    if as_json:
        put_json({"ok": ok, "checks": [_json(check) for check in done]})
    else:
        for check in done:
            put(f"{'ok   ' if check.ok else 'WRONG'}  {check.name:<10}  {check.detail}\n")
            put("".join(f"         {item}\n" for item in check.found))
    return exits.OK if ok else exits.FAILED


def _json(check: Check) -> JSONObject:
    return {"name": check.name, "ok": check.ok, "detail": check.detail, "found": [*check.found]}


async def _checks(settings: Settings) -> AsyncGenerator[Check]:
    """Every check that can be made: what needs a server that is away is left out."""
    addresses = known_addresses(settings)
    database = Database(addresses.database_url)
    try:
        schema = await _check_database(database)
        yield schema
        client, temporal = await _check_temporal(addresses.temporal, settings.temporal_namespace)
        yield temporal
        possible: list[Awaitable[Check]] = [] if client is None else [checks.check_stuck(client)]
        if schema.ok:
            possible += _of_rows(database, settings.tenant)
        if schema.ok and client is not None:
            possible.append(checks.check_workers(client, database, settings.tenant))
            possible.append(checks.check_executions(client, database, settings.tenant))
        for check in possible:
            yield await _surviving(check)
    finally:
        await database.close()


def _of_rows(database: Database, tenant: str) -> list[Awaitable[Check]]:
    return [
        checks.check_agents(database, tenant),
        checks.check_indexes(database),
        checks.check_waits(database, tenant),
    ]


async def _surviving(check: Awaitable[Check]) -> Check:
    """A check, or that a server went away while it was made."""
    try:
        return await check
    except Exception as error:
        if not (is_away(error) or isinstance(error, RPCError)):
            raise
        return Check("servers", False, f"a server stopped answering: {error}")


async def _check_database(database: Database) -> Check:
    try:
        await check_schema(database)
    except ServerUnavailable as error:
        return Check("postgresql", False, str(error))
    except SchemaOutdated as error:
        return Check("schema", False, str(error))
    return Check("postgresql", True, f"{database.address} answers; its schema is at revision {HEAD_REVISION}")


async def _check_temporal(address: str, namespace: str) -> tuple[Client | None, Check]:
    try:
        client = await connect_temporal(address, namespace)
    except ServerUnavailable as error:
        return None, Check("temporal", False, str(error))
    return client, Check("temporal", True, f"{address} answers")


async def _rebuild(session: str, *, as_json: bool) -> int:
    from perdure.runtime.rebuild import rebuild_session

    async with open_sessions() as sessions:
        report = await rebuild_session(sessions.client, sessions.database, SessionKey(sessions.tenant, session))
    counts = {
        "runs": report.runs,
        "checkpoints": report.checkpoints,
        "tool_calls": report.tool_calls,
        "nodes": report.nodes,
    }
    lost, missing = list(report.lost_executions), list(report.missing_checkpoints)
    if as_json:
        put_json({"session": session, **counts, "lost_executions": [*lost], "missing_checkpoints": [*missing]})
    else:
        put_fields([("session", session), *counts.items()])
        put("".join(f"its history is gone, its rows are kept as they are: execution {name}\n" for name in lost))
        put("".join(f"neither a history nor a row has it now: checkpoint {name}\n" for name in missing))
    return exits.FAILED if lost or missing else exits.OK
