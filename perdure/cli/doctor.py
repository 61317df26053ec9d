"""`perdure doctor`: is all well, and if not, what to do. Its repairs, and the rebuild of a session's index rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Annotated

import typer
from temporalio.client import Client

from perdure.cli import exits
from perdure.cli.connection import known_addresses, open_sessions
from perdure.cli.output import put, put_fields, put_json
from perdure.cli.parameters import AsJson
from perdure.config import Settings, load_settings
from perdure.errors import InvalidInput, SchemaOutdated, ServerUnavailable
from perdure.migrations.schema import HEAD_REVISION, check_schema
from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import NAMES, examine
from perdure.runtime.checks.servers import check_stuck
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.uap.session_key import SessionKey, checked_session_id

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    rebuild: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Make a session's index rows anew from its history.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended safely; without it only look.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help="Only this check; may be given more than once.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="Whose sessions; PERDURE_TENANT if not given.")
    ] = None,
    stuck_after: Annotated[
        float, typer.Option(metavar="MINUTES", min=0.0, help="Name runs that have written nothing for so long.")
    ] = 15.0,
    as_json: AsJson = False,
) -> int:
    """Check servers, schema, runs and rows, and mend them; exit with 1 if something is wrong."""
    settings = load_settings(tenant=tenant)
    if rebuild is not None:
        return asyncio.run(_rebuild(SessionKey(settings.tenant, checked_session_id(rebuild)), as_json=as_json))
    wanted = _checked(only or NAMES)
    return asyncio.run(
        _examine(settings, wanted, repair=repair, stuck_after=timedelta(minutes=stuck_after), as_json=as_json)
    )


def _checked(names: list[str] | tuple[str, ...]) -> frozenset[str]:
    for name in names:
        if name not in NAMES:
            raise InvalidInput(f"--only is {name[:40]!r}; it must be one of {', '.join(NAMES)}")
    return frozenset(names)


async def _examine(
    settings: Settings, only: frozenset[str], *, repair: bool, stuck_after: timedelta, as_json: bool
) -> int:
    done = [check async for check in _checks(settings, only, repair=repair, stuck_after=stuck_after)]
    ok = all(check.ok for check in done)
    if as_json:
        put_json({"ok": ok, "repair": repair, "checks": [check.to_json() for check in done]})
    else:
        for check in done:
            put(f"{'ok   ' if check.ok else 'WRONG'}  {check.name:<11}  {check.detail}\n")
            put("".join(f"         {item}\n" for item in check.found))
    return exits.OK if ok else exits.FAILED


async def _checks(
    settings: Settings, only: frozenset[str], *, repair: bool, stuck_after: timedelta
) -> AsyncGenerator[Check]:
    """Every check that can be made: what needs a server that is away is left out."""
    addresses = known_addresses(settings)
    database = Database(addresses.database_url, keyring=addresses.keyring)
    try:
        schema = await _check_database(database)
        yield schema
        client, temporal = await _check_temporal(addresses.temporal, settings.temporal_namespace)
        yield temporal
        if schema.ok:
            scope = Scope(database, settings.tenant, client, stuck_after)
            async for check in examine(scope, only=only, repair=repair):
                yield check
        elif client is not None:
            yield await check_stuck(client)
    finally:
        await database.close()


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


async def _rebuild(key: SessionKey, *, as_json: bool) -> int:
    from perdure.runtime.rebuild import rebuild_session

    async with open_sessions() as sessions:
        report = await rebuild_session(sessions.client, sessions.database, key)
    counts = {
        "runs": report.runs,
        "checkpoints": report.checkpoints,
        "tool_calls": report.tool_calls,
        "nodes": report.nodes,
    }
    lost, missing = list(report.lost_executions), list(report.missing_checkpoints)
    if as_json:
        put_json({"session": key.session, **counts, "lost_executions": [*lost], "missing_checkpoints": [*missing]})
    else:
        put_fields([("session", key.session), *counts.items()])
        put("".join(f"its history is gone, its rows are kept as they are: execution {name}\n" for name in lost))
        put("".join(f"neither a history nor a row has it now: checkpoint {name}\n" for name in missing))
    return exits.FAILED if lost or missing else exits.OK
