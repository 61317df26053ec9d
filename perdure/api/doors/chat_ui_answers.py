"""A chat's run that goes on with the client's answers: decisions on approvals, and results of the client's tools."""

from __future__ import annotations

import contextlib

from perdure.api.access import Caller
from perdure.api.doors.chat_ui_place import Turn, chat_key
from perdure.api.principal import Scope
from perdure.api.problems import Refused
from perdure.api.requirement import check_scope
from perdure.errors import UnknownRun, WaitAnswered, WaitStale
from perdure.protocols.threadprotocol.live_calls import CLIENT_TOOL
from perdure.protocols.threadprotocol.ui_request import Given, given_in
from perdure.runtime.threads.run_telling import RunTelling
from perdure.store.run_spans import read_run_span
from perdure.store.runs import TERMINAL, find_run
from perdure.upp.json_value import JSONObject


async def go_on(caller: Caller, name: str, message: JSONObject) -> Turn:
    """Give a run the client's answers.

    Args:
        caller: who answers.
        name: of the chat.
        message: the assistant's UI message with the answers; its id is the run's.

    Raises:
        Refused: it is no message of the chat, or answers nothing that waits; or it decides and the caller may not.
    """
    chat, ident = chat_key(caller.tenant, name), str(message.get("id"))
    try:
        row = await find_run(caller.database, caller.tenant, ident.lower())
    except UnknownRun:
        row = None
    if row is None or row.key != chat:
        raise Refused(409, "unknown_run", f"message {ident[:80]!r} is no answer of this chat; send a user's message")
    span = await read_run_span(caller.database, caller.tenant, row.id)
    telling = RunTelling(caller.database, span)
    rests = await telling.read_all()
    answered: set[str] = set()
    for given in given_in(message):
        wait = _wait_of(telling, given)
        if wait is not None:
            await _answer(caller, wait, given)
            answered.add(wait)
    if not answered:
        left = [f"{call.name} ({call.kind})" for call in telling.calls.all() if call.waits]
        state = "has ended" if row.status in TERMINAL else f"waits for {', '.join(left) or 'nobody'}"
        raise Refused(409, "nothing_answered", f"the message answers nothing: its run {state}")
    return Turn(span, next((rest & answered for rest in reversed(rests) if rest & answered), frozenset(answered)))


def _wait_of(telling: RunTelling, given: Given) -> str | None:
    """The wait that an answer is for; None if there never was one: the server itself ran the tool."""
    for call in telling.calls.all():
        if given.approval is not None and call.wait == given.approval:
            return call.wait
        if given.approval is None and call.id == given.call and call.kind == CLIENT_TOOL:
            return call.wait
    return None


async def _answer(caller: Caller, wait: str, given: Given) -> None:
    if given.approval is not None:
        check_scope(caller.principal, Scope.APPROVE)
    with contextlib.suppress(
        WaitAnswered, WaitStale
    ):  # somebody was first, or it is too late: the run tells what came of it
        await caller.sessions.answer(wait, given.answer, by=caller.principal.name)
