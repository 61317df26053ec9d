"""`perdure sessions`: lists, pages, event logs, and the three controls. Its other commands have modules of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli import event_log, session_changes, session_files
from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import in_short, iso, put, put_fields, put_json, put_table, say
from perdure.cli.parameters import AsJson, SessionId, checked_run_id
from perdure.cli.runs import run_json
from perdure.cli.waits import wait_json
from perdure.errors import InvalidInput
from perdure.store.runs import list_runs
from perdure.store.sessions import SessionRow, list_sessions, read_nodes, read_session
from perdure.store.waits import open_waits
from perdure.upp.json_value import JSONObject, JSONValue

if TYPE_CHECKING:  # takes long to import, and what only reads does without
    from perdure.runtime.sessions import Controlled, Sessions

app = typer.Typer(
    help="List, show, follow, control, branch, export and import sessions.", no_args_is_help=True, add_completion=False
)


class Status(StrEnum):
    """What a session is doing, as its row says."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"


@app.command("list")
def list_page(
    status: Annotated[Status | None, typer.Option(help="Only those of this status.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first, a page at a time."""
    rows = asyncio.run(_page(status, limit, None if before is None else read_cursor(before)))
    following = cursor(rows[-1]) if len(rows) == limit else None
    if as_json:
        put_json({"sessions": [_session_json(row) for row in rows], "next": following})
        return
    columns = ("session", "agent", "status", "runs", "steps", "created at", "title")
    put_table(columns, [_cells(row) for row in rows])
    if following is not None:
        say(f"there may be more: --before {following}")


async def _page(status: str | None, limit: int, before: tuple[datetime, str] | None) -> list[SessionRow]:
    async with open_store() as store:
        return await list_sessions(store.database, store.tenant, status=status, before=before, limit=limit)


def cursor(row: SessionRow) -> str:
    """Where a page ends: the last session's time of creation and id."""
    return f"{row.created_at.isoformat()}/{row.key.session}"


def read_cursor(text: str) -> tuple[datetime, str]:
    """What `cursor` wrote.

    Raises:
        InvalidInput: it did not write this.
    """
    at, slash, session = text.partition("/")
    try:
        created = datetime.fromisoformat(at)
    except ValueError:
        created = None
    if not slash or created is None or created.tzinfo is None or not session.isascii():
        raise InvalidInput(f"--before {text!r} is no cursor; take it from the end of the page before")
    return created, session


@app.command()
def show(session: SessionId, as_json: AsJson = False) -> None:
    """Show a session, its runs, thread nodes and open waits."""
    document = asyncio.run(_show(session))
    if as_json:
        put_json(document)
        return
    runs, waits, nodes = (_objects(document.pop(name)) for name in ("runs", "waits", "nodes"))
    put_fields([(name, in_short(value) if isinstance(value, dict) else value) for name, value in document.items()])
    if len(nodes) > 1:
        put("\n")
        put_table(("node", "parent", "name"), [[node["node"], node["parent"], node["name"]] for node in nodes])
    if runs:
        columns = ("run", "status", "steps", "model_calls", "started_at", "ended_at")
        put("\n")
        put_table(columns, [[run[name] for name in columns] for run in runs])
    for wait in waits:
        put(f"\nwaits for an answer: perdure waits answer {wait['wait']}\n")


def _objects(value: JSONValue) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


async def _show(session: str) -> JSONObject:
    async with open_store() as store:
        key = store.key(session)
        row = await read_session(store.database, key)
        nodes = await read_nodes(store.database, key)
        runs = await list_runs(store.database, key)
        waits = await open_waits(store.database, key.tenant, key.session)
    return {
        **_session_json(row),
        "nodes": [{"node": node.id, "parent": node.parent, "name": node.name} for node in nodes],
        "runs": [run_json(run) for run in runs],
        "waits": [wait_json(wait) for wait in waits],
    }


@app.command()
def events(
    session: SessionId,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Only events with a higher number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with each new event, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a session's event log. With --follow, --json gives one document a line instead of one list."""
    show_log = event_log.follow if follow else event_log.show
    asyncio.run(show_log(session, after, as_json=as_json))


@app.command()
def pause(session: SessionId, as_json: AsJson = False) -> None:
    """Hold a session's run before its next model or tool call; inputs are accepted and wait."""
    _control(session, lambda sessions: sessions.pause(session), as_json=as_json)


@app.command()
def resume(session: SessionId, as_json: AsJson = False) -> None:
    """Let a paused session go on."""
    _control(session, lambda sessions: sessions.resume(session), as_json=as_json)


@app.command()
def cancel(
    session: SessionId,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="This run, not the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel the active run, or a named one; a queued one is withdrawn."""
    named = None if run is None else checked_run_id(run)
    _control(session, lambda sessions: sessions.cancel(session, run=named), as_json=as_json)


app.command()(session_files.export)
app.command("import")(session_files.import_file)
app.command()(session_changes.fork)
app.command()(session_changes.checkout)
app.command()(session_changes.merge)
app.command()(session_changes.restore)
app.command("resume-run")(session_changes.resume_run)


def _control(session: str, action: Callable[[Sessions], Coroutine[Any, Any, Controlled]], *, as_json: bool) -> None:
    async def act() -> Controlled:
        async with open_sessions() as sessions:
            return await action(sessions)

    reached = asyncio.run(act())
    if as_json:
        event = None if reached.event is None else reached.event.seq
        put_json({"session": session, "state": reached.state, "event": event})
    else:
        put(_SAID.get(reached.state, f"the run has ended before: {reached.state}") + "\n")


_SAID = {
    "paused": "paused",
    "resumed": "resumed",
    "cancelled": "cancelled",
    "ignored": "ignored: that run is not the active one",
    "recorded": "recorded; it is done as soon as a worker runs",
}


def _session_json(row: SessionRow) -> JSONObject:
    """A session as every answer shows it."""
    return {
        "session": row.key.session,
        "agent": row.agent,
        "agent_id": row.agent_id,
        "status": row.status,
        "paused": row.paused,
        "active_run": row.active_run,
        "title": row.title,
        "metadata": row.metadata,
        "current_node": row.current_node,
        "run_count": row.runs,
        "step_count": row.steps,
        "usage": row.usage,
        "last_event": row.last_seq,
        "late_results": row.late_results,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def _cells(row: SessionRow) -> list[object]:
    return [row.key.session, row.agent, row.status, row.runs, row.steps, iso(row.created_at), row.title]
