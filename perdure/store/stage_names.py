"""The bodies that an inside agent's stage sessions consist of: results of stages' tools name them, and they each other."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.tables import payloads, runs, tool_calls
from perdure.uaip.definition import WorkflowDefinition
from perdure.uap.session_key import SessionKey
from perdure.uap.stage_place import place_of
from perdure.uap.stage_snapshot import first_snapshot, read_snapshot
from perdure.upp.json_value import loads


async def read_stage_names(connection: AsyncConnection, key: SessionKey) -> set[str]:
    """The sha256 of all snapshots, values and definitions that belong to places in a session's threads, or to its runs."""
    own = (tool_calls.c.tenant_id == key.tenant, tool_calls.c.session_id == key.session)
    results = select(tool_calls.c.result_sha256).where(*own, tool_calls.c.is_error.is_(False)).distinct()
    places = [place_of(loads(body)) for body in await _bodies(connection, key, payloads.c.sha256.in_(results))]
    states = [place.state for place in places if place is not None]
    snapshots = [read_snapshot(body) for body in await _bodies(connection, key, payloads.c.sha256.in_(states))]
    inside = [name for item in snapshots for name in (item.values, item.session.definition)]
    return {*states, *inside, *await _of_runs(connection, key)}


async def _of_runs(connection: AsyncConnection, key: SessionKey) -> list[str]:
    """The definitions that runs have frozen, and where a session begins by each."""
    specs = select(runs.c.spec).where(runs.c.tenant_id == key.tenant, runs.c.session_id == key.session)
    options = [spec["strategy"].get("options", {}) for spec in await connection.scalars(specs) if "strategy" in spec]
    frozen = {str(given["definition"]) for given in options if "definition" in given}
    bodies = await _bodies(connection, key, payloads.c.sha256.in_(frozen))
    begun = [first_snapshot(WorkflowDefinition.from_json(loads(body))) for body in bodies]
    return [*frozen, *(name for item in begun for name in (item.place.state, item.values))]


async def _bodies(connection: AsyncConnection, key: SessionKey, which: ColumnElement[bool]) -> list[bytes]:
    own = (payloads.c.tenant_id == key.tenant, payloads.c.session_id == key.session)
    return list((await connection.scalars(select(payloads.c.bytes).where(*own, which))).all())
