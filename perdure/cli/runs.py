"""`perdure runs`: one run, with what it called and where Temporal keeps its history."""

from __future__ import annotations

import asyncio
import shlex
from typing import Annotated, Any

import typer
from sqlalchemy import select

from perdure.cli.connection import Store, open_store
from perdure.cli.output import in_short, put, put_fields, put_json, put_table
from perdure.cli.parameters import AsJson, checked_run_id
from perdure.runtime.shown import run_json, wait_json
from perdure.store.runs import RunRow, find_run
from perdure.store.tables import tool_calls
from perdure.store.waits import open_waits
from perdure.upp.json_value import JSONObject

_CALL_COLUMNS = ("step", "index", "call_id", "tool", "effect", "state", "attempt", "is_error", "duration_ms")

app = typer.Typer(help="Show a run.", no_args_is_help=True, add_completion=False)


@app.callback()
def runs() -> None:
    """Show a run."""


@app.command()
def show(run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")], as_json: AsJson = False) -> None:
    """Show a run: state, usage, error, tool calls, and the command that opens it in Temporal."""
    asyncio.run(_show(checked_run_id(run), as_json=as_json))


async def _show(run: str, *, as_json: bool) -> None:
    async with open_store() as store:
        row = await find_run(store.database, store.tenant, run)
        calls = await _read_calls(store, row)
        waits = [wait_json(wait) for wait in await open_waits(store.database, row.key.tenant, row.key.session)]
        waits = [wait for wait in waits if wait["run"] == run]
    temporal = _temporal(store, row)
    if as_json:
        put_json({**run_json(row), "temporal": temporal, "tool_calls": [*calls], "waits": [*waits]})
        return
    shown = run_json(row)
    error, usage = shown.pop("error"), shown.pop("usage")
    put_fields([*shown.items(), ("usage", usage and in_short(usage)), ("error", error and in_short(error, 1000))])
    if calls:
        put("\n")
        put_table(_CALL_COLUMNS, [[call[name] for name in _CALL_COLUMNS] for call in calls])
    for wait in waits:
        put(f"\nwaits for an answer: perdure waits answer {wait['wait']}\n")
    if temporal is not None:
        put(f"\n{temporal['command']}\n")


def _temporal(store: Store, row: RunRow) -> JSONObject | None:
    """Where the run's history is; None for one that has not begun."""
    if row.temporal_run_id is None:
        return None
    namespace = store.settings.temporal_namespace
    command = ["temporal", "workflow", "show", "--workflow-id", row.key.workflow_id, "--run-id", row.temporal_run_id]
    command += ["--address", store.addresses.temporal]
    command += [] if namespace == "default" else ["--namespace", namespace]
    return {"workflow_id": row.key.workflow_id, "run_id": row.temporal_run_id, "command": shlex.join(command)}


async def _read_calls(store: Store, row: RunRow) -> list[JSONObject]:
    mine = (tool_calls.c.session_id == row.key.session) & (tool_calls.c.run_id == row.id)
    query = select(tool_calls).where(tool_calls.c.tenant_id == row.key.tenant, mine)
    async with store.database.transaction() as connection:
        found = (await connection.execute(query.order_by(tool_calls.c.step, tool_calls.c.index))).all()
    return [_call_json(call) for call in found]


def _call_json(row: Any) -> JSONObject:
    return {**{name: getattr(row, name) for name in _CALL_COLUMNS}, "result_bytes": row.result_bytes}
