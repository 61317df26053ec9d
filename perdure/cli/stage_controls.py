"""`perdure stages pause`, `resume`, `terminate` and `answer`: what an operator does to a stage session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connection import open_sessions
from perdure.cli.output import put, put_json
from perdure.cli.parameters import AsJson, StageSessionId, checked_text, no_stage_session
from perdure.cli.waits import By, read_json, user_name
from perdure.errors import InvalidInput
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.shown_stages import action_json, stage_session_json
from perdure.uaip.refusal import Reason
from perdure.upp.json_value import JSONObject

if TYPE_CHECKING:  # takes long to import, and what only reads does without
    from perdure.runtime.stage_control import StageControlled
    from perdure.runtime.stages import Stages

_SAID = {
    "paused": "paused",
    "resumed": "resumed",
    "terminated": "terminated",
    "expired": "it had expired before",
    "recorded": "recorded; it is done as soon as a worker runs",
}


def pause(session: StageSessionId, as_json: AsJson = False) -> None:
    """Have a session's actions wait; a task that runs ends, and is answered."""
    _control(session, lambda stages: stages.pause(session), as_json=as_json)


def resume(session: StageSessionId, as_json: AsJson = False) -> None:
    """Let a paused session take its actions."""
    _control(session, lambda stages: stages.resume(session), as_json=as_json)


def terminate(
    session: StageSessionId,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the session's record.")] = None,
    as_json: AsJson = False,
) -> None:
    """End a session at once: a task that runs is cancelled, and all that is open is answered so."""
    why = "" if reason is None else checked_text(reason, "--reason")
    _control(session, lambda stages: stages.terminate(session, reason=why), as_json=as_json)


def answer(
    session: StageSessionId,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="The action's id.")],
    approve: Annotated[bool, typer.Option("--approve", help="Let the task run.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Have the task not run; the client is told so.")] = False,
    done: Annotated[str | None, typer.Option(metavar="JSON", help="The task did its work; its result.")] = None,
    not_done: Annotated[bool, typer.Option("--not-done", help="The task had no effect; run it now.")] = False,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="With --approve: all arguments, in place of those asked about.")
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; the client is told of a denial's.")] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Answer an action that waits for a person, once; its session goes on."""
    if approve + deny + (done is not None) + not_done != 1:
        raise InvalidInput("give one answer: --approve, --deny, --done JSON or --not-done")
    if arguments is not None and not approve:
        raise InvalidInput("--arguments goes with --approve")
    given: JSONObject = {"outcome": "not_done"} if not_done else {"approved": approve}
    if arguments is not None:
        given["arguments"] = read_json(arguments, "--arguments")
    if done is not None:
        given = {"outcome": "done", "result": read_json(done, "--done")}
    who = user_name() if by is None else checked_text(by, "--by")
    why = "" if reason is None else checked_text(reason, "--reason")
    asyncio.run(_answer(session, checked_text(action, "ACTION"), given, who, why, as_json=as_json))


async def _answer(session: str, action: str, given: JSONObject, by: str, reason: str, *, as_json: bool) -> None:
    async with _open(session) as stages:
        row = await stages.answer(session, action, given, by=by, reason=reason)
        definition = await stages.definition_of(await stages.find(session))
    if as_json:
        put_json(action_json(row, definition))
    else:
        put(f"answered; session {row.key.session} goes on\n")


def _control(session: str, act: Callable[[Stages], Coroutine[Any, Any, StageControlled]], *, as_json: bool) -> None:
    async def work() -> StageControlled:
        async with _open(session) as stages:
            return await act(stages)

    reached = asyncio.run(work())
    if as_json:
        put_json({"state": reached.state, "stage_session": stage_session_json(reached.row)})
    else:
        put(f"{_SAID[reached.state]}\n")


@asynccontextmanager
async def _open(session: str) -> AsyncGenerator[Stages]:
    """Both servers' stage sessions; one that there is not is told of with its id."""
    async with open_sessions() as sessions:
        try:
            yield sessions.stages
        except RequestRefused as error:
            if error.refusal.reason is not Reason.SESSION_NOT_FOUND:
                raise
            raise no_stage_session(session) from error
