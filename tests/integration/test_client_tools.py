"""Tools that the client runs: the run waits for the result from outside, over restarts and executions."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import InvalidInput, WaitAnswered
from perdure.runtime.wait_answers import LARGEST_BYTES
from perdure.store.runs import find_run
from perdure.upp.json_value import JSONObject
from tests.integration.facts import check_session
from tests.integration.stack import Stack, eventually
from tests.integration.test_approvals import ever_asked
from tests.integration.waiting import asked, new_name, results, submit, until_ended, worker


def pick(of: str) -> dict[str, Any]:
    """A call of the agent's own client-side tool."""
    return {"tool": "pick", "arguments": {"of": of}}


async def test_results_come_from_outside_over_restarts(stack: Stack) -> None:
    """Two calls of one tool, answered the second first, with all processes killed between; a failure is an error result."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            handle = await submit(sessions, name, [pick("a" * 3000), pick("b")], "thanks")
            first, second = sorted(await asked(sessions, handle, 2), key=lambda wait: wait.index)
            assert [first.kind, second.kind] == ["client_tool"] * 2
            assert (await sessions.wait(first.id)).asked["arguments"] == {"of": "a" * 3000}
        await sessions.answer(second.id, {"result": "no user", "isError": True}, by="app")
        with worker(stack):
            await until_ended(sessions, handle, 1)
        assert [wait.id for wait in await sessions.waits(handle.session)] == [first.id]
        assert (await find_run(sessions.database, sessions.tenant, handle.id)).status == "parked"
        long: JSONObject = {"items": ["x" * 100_000]}
        with worker(stack):
            await sessions.answer(first.id, {"result": long}, by="app")
            turn = await handle.result()
        with pytest.raises(WaitAnswered, match="app"):
            await sessions.answer(first.id, {"result": 2}, by="other")
    assert results(turn) == [(long, False), ("no user", True)]
    await check_session(stack, handle.session)


async def test_a_run_that_waits_goes_on_in_a_new_execution(stack: Stack) -> None:
    """S34: Signals fill one execution's history while nobody answers; the next one waits for the same answer."""
    name = new_name()
    with worker(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        async with stack.connect() as sessions:
            handle = await submit(sessions, name, [pick("a")], "thanks")
            (wait,) = await asked(sessions, handle)
            target = sessions.client.get_workflow_handle(wait.key.workflow_id)
            first = (await target.describe()).run_id

            async def left() -> bool:
                await target.signal("wake")
                return (await target.describe()).run_id != first

            await eventually(left)
            assert [open_one.id for open_one in await sessions.waits(handle.session)] == [wait.id]
            await sessions.answer(wait.id, {"result": 1}, by="app")
            turn = await handle.result()
    assert results(turn) == [(1, False)]


async def test_a_result_is_bounded_and_may_come_too_late(stack: Stack) -> None:
    """What is too long is refused; a tool with a timeout goes on without a result."""
    name = new_name()
    with worker(stack):
        async with stack.connect() as sessions:
            handle = await submit(sessions, name, [pick("a"), {"tool": "pick_soon", "arguments": {}}], "thanks")
            waits = await ever_asked(sessions, handle, 2)
            (wait,) = [wait for wait in waits if wait.expires_at is None]
            wrong: list[JSONObject] = [
                {},
                {"result": 1, "isError": "no"},
                {"result": "x" * LARGEST_BYTES},
                {"outcome": "x"},
            ]
            for answer in wrong:
                with pytest.raises(InvalidInput):
                    await sessions.answer(wait.id, answer, by="app")
            await sessions.answer(wait.id, {"result": None}, by="app")
            turn = await handle.result()
    assert results(turn) == [(None, False), ("No result of this call came in time.", True)]
