"""`perdure sessions`: lists, pages and event logs. Its other commands have modules of their own."""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import event_log, session_approval, session_changes, session_controls, session_files, session_threads
from perdure.cli.connection import open_store
from perdure.cli.output import in_short, put, put_fields, put_json, put_table, say
from perdure.cli.parameters import AsJson, SessionId
from perdure.errors import InvalidInput
from perdure.runtime.filterable import read_filter
from perdure.runtime.shown import iso, run_json, session_json, wait_json
from perdure.store.runs import list_runs
from perdure.store.sessions import SessionRow, list_sessions, read_nodes, read_session
from perdure.store.waits import open_waits
from perdure.upp.json_value import JSONObject, JSONValue

if TYPE_CHECKING:  # takes long to import, and what only reads does without
    pass

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
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help='Only those whose metadata has this; may be given often. 7 and true are JSON, "7" is a text.',
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first, a page at a time."""
    wanted = read_filter(metadata or (), "=", "--metadata")
    rows = asyncio.run(_page(status, wanted, limit, None if before is None else read_cursor(before)))
    following = cursor_of(rows[-1].created_at, rows[-1].key.session) if len(rows) == limit else None
    if as_json:
        put_json({"sessions": [session_json(row) for row in rows], "next": following})
        return
    columns = ("session", "agent", "status", "runs", "steps", "created at", "title")
    put_table(columns, [_cells(row) for row in rows])
    if following is not None:
        say(f"there may be more: --before {following}")


async def _page(
    status: str | None, metadata: JSONObject, limit: int, before: tuple[datetime, str] | None
) -> list[SessionRow]:
    async with open_store() as store:
        return await list_sessions(
            store.database, store.tenant, status=status, metadata=metadata, before=before, limit=limit
        )


def cursor_of(created_at: datetime, session: str) -> str:
    """Where a page ends: the last session's time of creation and id."""
    return f"{created_at.isoformat()}/{session}"


def read_cursor(text: str) -> tuple[datetime, str]:
    """What `cursor_of` wrote.

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
        **session_json(row),
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


app.command()(session_controls.pause)
app.command()(session_controls.resume)
app.command()(session_controls.cancel)
app.command()(session_controls.patch)
app.command()(session_controls.delete)
app.command()(session_files.export)
app.command("import")(session_files.import_file)
app.command()(session_threads.thread)
app.command("import-threads")(session_threads.import_threads)
app.command()(session_changes.fork)
app.command()(session_changes.checkout)
app.command()(session_changes.merge)
app.command()(session_changes.restore)
app.command("resume-run")(session_changes.resume_run)
app.command()(session_approval.approve)


def _cells(row: SessionRow) -> list[object]:
    return [row.key.session, row.agent, row.status, row.runs, row.steps, iso(row.created_at), row.title]
