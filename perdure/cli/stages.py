"""`perdure stages`: stage workflows, and lists and pages of their sessions. Controls and answers have a module of their own."""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from perdure.cli import stage_controls
from perdure.cli.connection import Store, open_store
from perdure.cli.output import in_short, put, put_fields, put_json, put_table, say
from perdure.cli.parameters import AsJson, StageSessionId, no_stage_session
from perdure.cli.sessions import cursor_of, read_cursor
from perdure.cli.stage_cells import action_cells, session_cells, wait_cells, workflow_cells
from perdure.errors import InvalidInput
from perdure.runtime.shown_stages import (
    action_json,
    stage_session_json,
    stage_view_json,
    stage_wait_json,
    workflow_json,
)
from perdure.runtime.stage_action import RUNNING, WAITING
from perdure.runtime.stages import StageView
from perdure.store.stages.actions import action_page
from perdure.store.stages.definitions import ServedWorkflow, list_workflows, read_definition
from perdure.store.stages.rows import ActionRow, StageSessionRow, stage_key
from perdure.store.stages.sessions import find_session, read_state, session_page
from perdure.store.stages.waits import open_stage_waits
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.offers import offers, ways_on
from perdure.uaip.session import SessionStatus
from perdure.upp.json_value import JSONObject, JSONValue

app = typer.Typer(
    help="List stage workflows; list, show, control and answer their sessions.",
    no_args_is_help=True,
    add_completion=False,
)


class Status(StrEnum):
    """What a stage session is, as its row says."""

    OPEN = "open"
    PAUSED = "paused"
    TERMINATED = "terminated"
    EXPIRED = "expired"


@app.command()
def workflows(
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only those that have this text.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the workflows that are served."""
    found = asyncio.run(_workflows(search))
    if as_json:
        put_json({"workflows": [workflow_json(served) for served in found]})
    elif not found:
        say("no workflow is there; a worker registers those of its App(workflows=[...])")
    else:
        put_table(("workflow", "stages", "seen at", "description"), [workflow_cells(served) for served in found])


async def _workflows(search: str | None) -> list[ServedWorkflow]:
    async with open_store() as store:
        return await list_workflows(store.database, store.tenant, search=search)


@app.command("list")
def list_page(
    workflow: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this workflow.")] = None,
    stage: Annotated[str | None, typer.Option(metavar="NAME", help="Only those in this stage of it.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only those of this status.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="The actions that wait for a person instead.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """List stage sessions, newest first, a page at a time; or what waits for a person, oldest first."""
    if waiting:
        if workflow or stage or status or before:
            raise InvalidInput("--waiting lists what waits in all sessions; of the other options it takes --limit only")
        _put_waits(asyncio.run(_waits(limit)), as_json=as_json)
        return
    after = None if before is None else read_cursor(before)
    rows = asyncio.run(_page(workflow, stage, status, after, limit))
    following = cursor_of(rows[-1].created_at, rows[-1].key.session) if len(rows) == limit else None
    if as_json:
        put_json({"stage_sessions": [stage_session_json(row) for row in rows], "next": following})
        return
    columns = ("session", "workflow", "stage", "status", "actions", "open", "created at")
    put_table(columns, [session_cells(row) for row in rows])
    if following is not None:
        say(f"there may be more: --before {following}")


async def _page(
    workflow: str | None, stage: str | None, status: Status | None, after: tuple[datetime, str] | None, limit: int
) -> list[StageSessionRow]:
    wanted = None if status is None else SessionStatus(status.value)
    async with open_store() as store:
        return await session_page(
            store.database, store.tenant, workflow=workflow, stage=stage, status=wanted, after=after, limit=limit
        )


async def _waits(limit: int) -> list[ActionRow]:
    async with open_store() as store:
        return await open_stage_waits(store.database, store.tenant, limit=limit)


def _put_waits(rows: list[ActionRow], *, as_json: bool) -> None:
    if as_json:
        put_json({"waits": [stage_wait_json(row) for row in rows]})
    elif not rows:
        say("nothing waits for an answer")
    else:
        columns = ("session", "action", "kind", "task", "arguments", "asked at")
        put_table(columns, [wait_cells(row) for row in rows])


@app.command()
def show(session: StageSessionId, as_json: AsJson = False) -> None:
    """Show a stage session: where it is, what can be called, where it can go, and what it waits for."""
    document = asyncio.run(_show(session))
    if as_json:
        put_json(document)
        return
    tools, ways, in_hand, wait = (document.pop(name) for name in ("tools", "ways_on", "in_hand", "wait"))
    document["tools"] = ", ".join(str(tool["name"]) for tool in _objects(tools))
    put_fields([(name, in_short(value) if isinstance(value, dict) else value) for name, value in document.items()])
    for way in _objects(ways):
        put(f"can go to {way['stage']}{_needs(way['missing'])}\n")
    if isinstance(in_hand, dict) and in_hand["state"] == "running":
        child = in_hand["child"]
        put(f"runs {in_hand['name']}" + (f": perdure sessions show {child}\n" if child else "\n"))
    if isinstance(wait, dict):
        put(f"waits for an answer: perdure stages answer {document['session']} {wait['action_id']}\n")


async def _show(session: str) -> JSONObject:
    async with open_store() as store:
        row = await _find(store, session)
        definition = await read_definition(store.database, store.tenant, row.session.definition)
        state = await read_state(store.database, row.key)
        opened = await action_page(store.database, row.key, after=row.session.taken, limit=1)
    view = StageView(row, definition, offers(definition, row.session), ways_on(definition, row.session))
    in_hand = next((action for action in opened if action.state in (RUNNING, WAITING)), None)
    return stage_view_json(view, state, in_hand)


def _needs(missing: JSONValue) -> str:
    keys = [str(key) for key in missing] if isinstance(missing, list) else []
    return f" once there is {', '.join(keys)}" if keys else ""


@app.command()
def history(
    session: StageSessionId,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Only actions with a higher number.")] = 0,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List what was asked of a stage session, in order, also what was refused and what is not done yet."""
    rows, definition = asyncio.run(_history(session, after, limit))
    if as_json:
        put_json({"actions": [action_json(row, definition) for row in rows]})
        return
    columns = ("n", "action", "what", "stage", "state", "answer", "took", "session of the run")
    put_table(columns, [action_cells(action_json(row, definition), row) for row in rows])
    if len(rows) == limit:
        say(f"there may be more: --after {rows[-1].ordinal}")


async def _history(session: str, after: int, limit: int) -> tuple[list[ActionRow], WorkflowDefinition]:
    async with open_store() as store:
        row = await _find(store, session)
        definition = await read_definition(store.database, store.tenant, row.session.definition)
        return await action_page(store.database, row.key, after=after, limit=limit), definition


@app.command()
def state(session: StageSessionId, as_json: AsJson = False) -> None:
    """Show the shared state of a stage session."""
    values = asyncio.run(_state(session))
    if as_json:
        put_json({"state": values})
    else:
        put_fields([(key, in_short(value)) for key, value in values.items()])


async def _state(session: str) -> JSONObject:
    async with open_store() as store:
        row = await _find(store, session)
        return await read_state(store.database, row.key)


app.command()(stage_controls.pause)
app.command()(stage_controls.resume)
app.command()(stage_controls.terminate)
app.command()(stage_controls.answer)


async def _find(store: Store, session: str) -> StageSessionRow:
    key = stage_key(store.tenant, session)
    found = None if key is None else await find_session(store.database, key)
    if found is None:
        raise no_stage_session(session)
    return found


def _objects(value: JSONValue) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
