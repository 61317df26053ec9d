"""`perdure waits`: the questions of parked runs, and their answers."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
from typing import Annotated

import typer

from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import in_short, iso, put, put_json, put_table, say
from perdure.cli.parameters import AsJson, SessionOption, checked_text
from perdure.errors import InvalidInput
from perdure.store.waits import WaitRow, open_waits
from perdure.upp.json_value import JSONObject, JSONValue, loads

app = typer.Typer(help="List and answer what parked runs wait for.", no_args_is_help=True, add_completion=False)


@app.command("list")
def list_waits(session: SessionOption = None, as_json: AsJson = False) -> None:
    """List what has no answer yet, oldest first."""
    rows = asyncio.run(_list(session))
    if as_json:
        put_json({"waits": [wait_json(row) for row in rows]})
    elif not rows:
        say("nothing waits for an answer")
    else:
        columns = ("wait", "session", "agent", "kind", "tool", "arguments", "asked at")
        put_table(columns, [_cells(row) for row in rows])


async def _list(session: str | None) -> list[WaitRow]:
    async with open_store() as store:
        named = None if session is None else store.key(session).session
        return await open_waits(store.database, store.tenant, named)


@app.command()
def answer(
    wait: Annotated[str, typer.Argument(metavar="WAIT", help="The wait's id.")],
    happened: Annotated[str | None, typer.Option(metavar="JSON", help="The tool did its work; its result.")] = None,
    not_run: Annotated[bool, typer.Option("--not-run", help="The tool had no effect; run it now.")] = False,
    unknown: Annotated[bool, typer.Option("--unknown", help="Nobody knows; the model is told so.")] = False,
    result: Annotated[str | None, typer.Option(metavar="JSON", help="The result of a client-side tool.")] = None,
    error: Annotated[bool, typer.Option("--error", help="The result given is an error.")] = False,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who answers; the user by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Answer a wait, once; its run goes on."""
    if (happened is not None) + not_run + unknown + (result is not None) != 1:
        raise InvalidInput("give one answer: --happened JSON, --not-run, --unknown or --result JSON")
    if error and happened is None and result is None:
        raise InvalidInput("--error goes with a result: --happened JSON or --result JSON")
    given = _answer(happened, result, error=error, outcome="not_run" if not_run else "unknown")
    who = _user() if by is None else checked_text(by, "--by")
    row = asyncio.run(_give(checked_text(wait, "WAIT"), given, who))
    if as_json:
        put_json({**wait_json(row), "answer": row.answer, "answered_by": row.answered_by})
    else:
        put(f"answered; run {row.run} of session {row.key.session} goes on\n")


def _answer(happened: str | None, result: str | None, *, error: bool, outcome: str) -> JSONObject:
    if happened is not None:
        return {"outcome": "happened", "result": _json(happened, "--happened"), "isError": error}
    if result is not None:
        return {"result": _json(result, "--result"), "isError": error}
    return {"outcome": outcome}


def _json(text: str, option: str) -> JSONValue:
    try:
        return loads(text.encode("utf-8", "surrogateescape"))
    except ValueError as problem:
        example = json.dumps(text)
        raise InvalidInput(f"{option} is no JSON ({problem}); a text needs its quotes: {option} '{example}'") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid {os.getuid()}"


async def _give(wait: str, given: JSONObject, who: str) -> WaitRow:
    async with open_sessions() as sessions:
        return await sessions.answer(wait, given, by=who)


def wait_json(row: WaitRow) -> JSONObject:
    """A wait as every answer shows it."""
    return {
        "wait": row.id,
        "session": row.key.session,
        "root": row.root,
        "path": row.path,
        "run": row.run,
        "kind": row.kind,
        "asked": row.asked,
        "asked_at": iso(row.asked_at),
    }


def _cells(row: WaitRow) -> list[object]:
    arguments = in_short(row.asked.get("arguments"), 60)
    return [row.id, row.root, row.path, row.kind, row.asked.get("tool"), arguments, iso(row.asked_at)]
