"""`perdure waits`: the questions of parked runs, and their answers."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
from typing import Annotated

import typer

from perdure.activities.contracts import APPROVAL, PAYMENT
from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import in_short, put, put_json, put_table, say
from perdure.cli.parameters import AsJson, SessionOption, checked_text
from perdure.errors import InvalidInput
from perdure.runtime.shown import iso, wait_json
from perdure.store.waits import WaitRow, open_waits, read_wait
from perdure.upp.json_value import JSONObject, JSONValue, loads

app = typer.Typer(help="List and answer what parked runs wait for.", no_args_is_help=True, add_completion=False)

WaitId = Annotated[str, typer.Argument(metavar="WAIT", help="The wait's id.")]
By = Annotated[str | None, typer.Option(metavar="NAME", help="Who answers; the user by default.")]


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
def show(wait: WaitId, as_json: AsJson = False) -> None:
    """Show a wait, open or answered, with the whole arguments that it is about."""
    row = asyncio.run(_show(checked_text(wait, "WAIT")))
    if as_json:
        put_json({**wait_json(row), "answer": row.answer, "answered_by": row.answered_by})
        return
    lines = {
        "wait": row.id,
        "kind": row.kind,
        "agent": row.path,
        "session": row.root,
        "run": row.run,
        "tool": row.asked.get("tool"),
        "asked at": iso(row.asked_at),
        "expires at": iso(row.expires_at),
        "answered by": row.answered_by,
    }
    put("".join(f"{name:<12} {value}\n" for name, value in lines.items() if value is not None))
    about = row.asked if row.kind == PAYMENT else row.asked.get("arguments")
    put(json.dumps(about, indent=2, ensure_ascii=False) + "\n")


async def _show(wait: str) -> WaitRow:
    async with open_sessions() as sessions:
        return await sessions.wait(wait)


@app.command()
def approve(
    wait: WaitId,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="All arguments, to be used in place of those asked about.")
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Let a tool call run, once; with other arguments if they are given."""
    edit: JSONObject = {} if arguments is None else {"arguments": read_json(arguments, "--arguments")}
    settle(wait, {"decision": "approve", **edit}, by, as_json=as_json)


@app.command()
def reject(
    wait: WaitId,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="What the model is told.")] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Have a tool call not run; the model is told so, and the reason."""
    why: JSONObject = {} if reason is None else {"reason": checked_text(reason, "--reason")}
    settle(wait, {"decision": "reject", **why}, by, as_json=as_json)


@app.command()
def answer(
    wait: WaitId,
    happened: Annotated[str | None, typer.Option(metavar="JSON", help="The tool did its work; its result.")] = None,
    not_run: Annotated[bool, typer.Option("--not-run", help="The tool had no effect; run it now.")] = False,
    unknown: Annotated[bool, typer.Option("--unknown", help="Nobody knows; the model is told so.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Nobody knows; the run ends as failed.")] = False,
    result: Annotated[
        str | None, typer.Option(metavar="JSON", help="The result of a client-side tool, or in a tool's place.")
    ] = None,
    error: Annotated[bool, typer.Option("--error", help="The result given is an error.")] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Answer a wait, once; its run goes on."""
    if (happened is not None) + not_run + unknown + stop + (result is not None) != 1:
        raise InvalidInput("give one answer: --happened JSON, --not-run, --unknown, --stop or --result JSON")
    if error and happened is None and result is None:
        raise InvalidInput("--error goes with a result: --happened JSON or --result JSON")
    if result is not None:
        asyncio.run(_give_result(checked_text(wait, "WAIT"), read_json(result, "--result"), error, by, as_json))
    elif happened is not None:
        given: JSONObject = {"outcome": "happened", "result": read_json(happened, "--happened"), "isError": error}
        settle(wait, given, by, as_json=as_json)
    else:
        outcome = "not_run" if not_run else "unknown" if unknown else "stop"
        settle(wait, {"outcome": outcome}, by, as_json=as_json)


def settle(wait: str, given: JSONObject, by: str | None, *, as_json: bool) -> None:
    """Give an answer to a wait, and say what came of it.

    Raises:
        UserError: there is no such wait, it has been answered, or is not answered so.
    """
    asyncio.run(_give(checked_text(wait, "WAIT"), given, by, as_json))


async def _give_result(wait: str, result: JSONValue, error: bool, by: str | None, as_json: bool) -> None:
    """The result of a client-side tool; of an approval it is the answer in the tool's place."""
    given: JSONObject = {"result": result, "isError": error}
    async with open_store() as store:
        row = await read_wait(store.database, store.tenant, wait)
    await _give(wait, {"decision": "answer", **given} if row.kind == APPROVAL else given, by, as_json)


async def _give(wait: str, given: JSONObject, by: str | None, as_json: bool) -> None:
    who = user_name() if by is None else checked_text(by, "--by")
    async with open_sessions() as sessions:
        row = await sessions.answer(wait, given, by=who)
    if as_json:
        put_json({**wait_json(row), "answer": row.answer, "answered_by": row.answered_by})
    else:
        put(f"answered; run {row.run} of session {row.key.session} goes on\n")


def read_json(text: str, option: str) -> JSONValue:
    """The value of an option that is JSON.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return loads(text.encode("utf-8", "surrogateescape"))
    except ValueError as problem:
        example = json.dumps(text)
        raise InvalidInput(f"{option} is no JSON ({problem}); a text needs its quotes: {option} '{example}'") from None


def user_name() -> str:
    """Who the terminal's user is."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid {os.getuid()}"


def _cells(row: WaitRow) -> list[object]:
    about = f"{row.asked.get('amount')} {row.asked.get('currency')}" if row.kind == PAYMENT else None
    arguments = in_short(row.asked.get("arguments"), 60) if about is None else about
    return [row.id, row.root, row.path, row.kind, row.asked.get("tool"), arguments, iso(row.asked_at)]
