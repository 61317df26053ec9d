"""react and lifecycle hooks in durable runs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.runtime.session_document import session_document
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session_key import SessionKey
from perdure.upp.errors import UPPError
from perdure.upp.messages import message_from_json
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess

STEP = ["on_step_start", "on_reason", "on_act", "on_observe", "on_step_end", "stop_condition"]
LAST = ["on_step_start", "on_reason", "on_step_end", "stop_condition"]


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, "tests.integration.hooked_agents:app").wait_ready()
    yield process
    process.kill()


async def think(sessions: Sessions, **spec: Any) -> tuple[RunHandle, str]:
    name = uuid.uuid4().hex
    return await sessions.submit("thinker", json.dumps({"name": name, **spec})), name


def hooks_of(stack: Stack, name: str) -> list[str]:
    return [entry["hook"] for entry in stack.entries(name, "hook")]


async def test_hooks_are_called_in_the_documented_order(stack: Stack, worker: WorkerProcess) -> None:
    """S07, S08: Two rounds of tools and an answer; the stop condition after every step, the last too."""
    async with stack.connect() as sessions:
        handle, name = await think(sessions, rounds=2)
        turn = await handle.result()
    assert hooks_of(stack, name) == [*STEP, *STEP, *LAST, "on_complete"]
    assert turn.response.text == "done after 2"
    assert [message.type for message in turn.messages] == ["user", *["assistant", "tool_result"] * 2, "assistant"]
    assert (turn.cycles, len(turn.usage.cycles or [])) == (6, 6)
    await check_session(stack, handle.session)


async def test_reasoning_is_not_part_of_the_conversation(stack: Stack, worker: WorkerProcess) -> None:
    """It is in the state and in the log, whole; not in the turn, the thread, or what the next run sends."""
    async with stack.connect() as sessions:
        handle, name = await think(sessions, rounds=1)
        turn = await handle.result()
        events = [event async for event in handle.events()]
        document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, handle.session))
        again = await sessions.submit("thinker", json.dumps({"name": name, "rounds": 0}), session=handle.session)
        await again.result()
    assert "think" not in " ".join(message.text for message in turn.messages)
    reasoning = [event.data["text"] for event in events if event.type == "reasoning"]
    assert [len(str(text)) > 2000 for text in reasoning] == [True, True]
    (thread,) = (node["thread"] for node in document["threadTree"]["nodes"])
    assert [message["type"] for message in thread["messages"]] == ["user", "assistant", "tool_result", "assistant"]
    state = document["checkpoints"][-1]["state"]
    assert state["reasoning"] == reasoning
    kinds = [scaffold_of(message_from_json(message)) for message in state["messages"]]
    assert kinds == ["", "prompt", "reason", "prompt", "", "", "prompt", "reason", "prompt", ""]
    asked = stack.entries(name, "model")
    assert [entry["number"] for entry in asked] == [0, 1, 2, 3, 2, 3], "the next run sees the two answers only"
    await check_session(stack, handle.session)


async def test_reasoning_calls_no_tools_and_sees_the_results_once_more(stack: Stack, worker: WorkerProcess) -> None:
    async with stack.connect() as sessions:
        handle, name = await think(sessions, rounds=1)
        turn = await handle.result()
    asked = stack.entries(name, "model")
    assert [(entry["last"], entry["choice"]) for entry in asked[::2]] == [("Reason now.", "none")] * 2
    assert len(turn.tool_executions) == 2
    ends = [entry for entry in stack.entries(name, "hook") if entry["hook"] == "on_step_end"]
    assert [entry["messages"] for entry in ends] == [2, 1]
    assert [len(entry["reasoning"]) for entry in ends] == [1, 2]


async def test_metadata_that_hooks_write_lasts(stack: Stack, worker: WorkerProcess) -> None:
    """From hook to hook, in the checkpoint, and for the stop condition, which ends the run after its step."""
    async with stack.connect() as sessions:
        handle, name = await think(sessions, rounds=9, stop=2)
        turn = await handle.result()
        document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, handle.session))
    metadata = document["checkpoints"][-1]["state"]["metadata"]
    assert metadata == {"seen": ["start 1", "start 2"], "last": 2}
    assert turn.messages[-1].type == "tool_result"
    assert hooks_of(stack, name) == [*STEP, *STEP, "on_complete"]


@pytest.mark.parametrize("recover", [True, False])
async def test_on_error_may_complete_the_run(stack: Stack, worker: WorkerProcess, recover: bool) -> None:
    """With a turn of its own, which is stored; else the failure stands."""
    async with stack.connect() as sessions:
        handle, name = await think(sessions, rounds=9, fail=2, recover=recover)
        if recover:
            assert (await handle.result()).response.text == "I could not."
        else:
            with pytest.raises(UPPError, match="no more"):
                await handle.result()
    assert hooks_of(stack, name)[-2:] == (["on_error", "on_complete"] if recover else ["on_step_start", "on_error"])
    await check_session(stack, handle.session)
