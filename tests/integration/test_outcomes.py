"""Outcomes that nobody knows: listed, and settled by a person."""

from __future__ import annotations

import pytest

from perdure.errors import OutcomeUnknown
from tests.integration.stack import Stack, eventually
from tests.integration.sub_agents import ask
from tests.integration.waiting import asked, call, new_name, paid, submit, worker


async def test_a_person_stops_a_run_whose_outcome_nobody_knows(stack: Stack) -> None:
    """The run fails, and its error names the call; what else of the batch waited is waited for no more."""
    name = new_name()
    batch = [call("pay", name, 5), {"tool": "hang", "arguments": {"name": name}}]
    inner = ask("clerk", name, batch, "never")
    async with stack.connect() as sessions:
        with worker(stack):
            handle = await submit(sessions, name, [ask("manager", name, [inner], "managed")], "done", agent="owner")

            async def is_hanging() -> bool:
                return paid(stack, name) == [0]

            await eventually(is_hanging)
        with worker(stack):
            waits = await asked(sessions, handle, 2)
            (unknown,) = [wait for wait in waits if wait.kind == "outcome"]
            await sessions.answer(unknown.id, {"outcome": "stop"}, by="Ada")
            with pytest.raises(OutcomeUnknown, match=r"call_0_1.*hang.*Ada"):
                await (await sessions.run(unknown.run)).result()
            assert (await handle.result()).response.text == "done"
        assert await sessions.waits(handle.session) == []
    assert paid(stack, name) == [0]
