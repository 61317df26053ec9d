"""Results of tools that the client ran, on their way to the run that waits for them.

Which run that is the ids of the calls say (`perdure.protocols.openai_chat.call_ids`). The same results may come again, as
from a client that was cut off: they go on with the same run. Results that nobody waits for any more, or other ones than
were taken, are a conversation of their own, which a new run goes on with.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.api.access import Caller
from perdure.errors import UnknownWait, WaitAnswered, WaitStale
from perdure.protocols.openai_chat.call_ids import wait_of
from perdure.runtime.run_handle import RunHandle
from perdure.store.waits import WaitRow
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets
from perdure.upp.tool_call import ToolResult

CLIENT_TOOL = "client_tool"


async def hand_over(
    caller: Caller, agent: str, results: Sequence[ToolResult]
) -> tuple[RunHandle, frozenset[str]] | None:
    """Give results to the run that waits for them, or has had them.

    Args:
        caller: who ran the tools.
        agent: whose run it must be.
        results: of all calls of one answer.

    Returns:
        The run, and the waits that are answered by now; None if no run goes on with these results.
    """
    waits = await _waits(caller, results)
    if waits is None or len({wait.run for wait in waits}) != 1 or waits[0].path != agent:
        return None
    if not all(_may_take(wait, result) for wait, result in zip(waits, results, strict=True)):
        return None
    for wait, result in zip(waits, results, strict=True):
        if wait.answer is None and not await _answer(caller, wait, result):
            return None
    return await caller.sessions.run(waits[0].run), frozenset(wait.id for wait in waits)


async def let_go(caller: Caller, agent: str, results: Sequence[ToolResult]) -> None:
    """Cancel the run that waits for results, since the client has gone on without it."""
    waits = await _waits(caller, results)
    for wait in waits or ():
        if wait.answer is None and wait.path == agent:
            await caller.sessions.cancel(wait.key.session, run=wait.run, wait_s=0)
            return


async def _waits(caller: Caller, results: Sequence[ToolResult]) -> list[WaitRow] | None:
    """The wait for each result; None if one is not a client's call of ours."""
    named = [wait_of(result.tool_call_id) for result in results]
    found: list[WaitRow] = []
    for wait in named:
        try:
            row = None if wait is None else await caller.sessions.wait(wait)
        except UnknownWait:
            row = None
        if row is None or row.kind != CLIENT_TOOL:
            return None
        found.append(row)
    return found


def _may_take(wait: WaitRow, result: ToolResult) -> bool:
    """Whether a wait has no answer, or this one, whichever door it came by."""
    if wait.answer is None:
        return True
    return {"isError": False, **wait.answer} == {"isError": False, **_given(result)}


async def _answer(caller: Caller, wait: WaitRow, result: ToolResult) -> bool:
    """Answer a wait; whether it has this answer now, be it from another request."""
    try:
        await caller.sessions.answer(wait.id, _given(result), by=caller.principal.name)
    except WaitAnswered:
        return _may_take(await caller.sessions.wait(wait.id), result)
    except WaitStale:
        return False
    return True


def _given(result: ToolResult) -> JSONObject:
    return known_secrets.json({"result": result.result})
