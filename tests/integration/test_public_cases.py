"""Failures that were reported of other runtimes, as they would show here. Each test is named by its rows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflowservice.v1 import PauseActivityRequest, UnpauseActivityRequest
from temporalio.worker import Replayer

from perdure.errors import InvalidInput
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.store.runs import list_runs
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.worker.build import perdure_plugin
from tests.integration.agents import HELD
from tests.integration.facts import check_session, history_sizes, read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.sub_agents import ask
from tests.integration.test_kills import finish, spec, submit
from tests.integration.waiting import asked, call, new_name, paid
from tests.scale import allowed_s, scaled

APP = "tests.integration.case_agents:app"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def steady(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker that no test kills. It caches no workflow: every workflow task replays its history."""
    process = WorkerProcess(stack, APP, PERDURE_MAX_CACHED_WORKFLOWS="0").wait_ready()
    yield process
    process.kill()


async def act(sessions: Sessions, *script: Any, agent: str = "actor", **more: Any) -> RunHandle:
    return await sessions.submit(agent, json.dumps(spec(script=[*script])), **more)


async def until_closed(sessions: Sessions, handle: RunHandle) -> None:
    async def closed() -> bool:
        return not await is_open(sessions.client, handle.accepted.key)

    await eventually(closed, what="the end of the execution")


async def test_s01_a_cancel_without_a_cache_is_one_command(stack: Stack, steady: WorkerProcess) -> None:
    """S01: in the middle of a model call, with the workflow evicted at every task: one cancel command, and an end in 2 s."""
    values = spec(steps=0, latency=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        began = time.monotonic()
        assert (await sessions.cancel(handle.session, wait_s=60)).state == "cancelled"
        took = time.monotonic() - began
        assert took < allowed_s(2.0)
        await until_closed(sessions, handle)
        workflow = sessions.client.get_workflow_handle(handle.accepted.key.workflow_id)
        kinds = [event.event_type async for event in workflow.fetch_history_events()]
    assert kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED) == 1
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in kinds
    await check_session(stack, handle.session)


async def test_s11_sixty_four_parallel_tools_over_a_megabyte(stack: Stack, steady: WorkerProcess) -> None:
    """S11, L70: 64 calls of one answer, each with 16 KB of arguments, over 1 MB of context: all are answered, in order."""
    values = spec(steps=1, calls=64, tool="none", size=MIB // 64)
    history = [UserMessage("x" * MIB), AssistantMessage("Understood.")]
    async with stack.connect() as sessions:
        handle = await submit(sessions, values, history=history)
        assert await finish(sessions, handle) == "completed"
        turn = await handle.result()
        await until_closed(sessions, handle)
        sizes = await history_sizes(sessions, handle.session)
    (results,) = [message for message in turn.messages if isinstance(message, ToolResultMessage)]
    assert [str(item.result).split()[0] for item in results.results] == [f"0.{place}" for place in range(64)]
    assert max(size for _, size in sizes) < MIB
    await check_session(stack, handle.session)


async def test_s12_a_large_result_travels_by_reference(stack: Stack, steady: WorkerProcess) -> None:
    """S12, L60: a tool returns 20 MB, the size of a picture: the model gets it whole, Temporal a preview, and all replays."""
    async with stack.connect() as sessions:
        handle = await act(sessions, [{"tool": "huge", "arguments": {"size": 20 * MIB}}], "seen")
        turn = await handle.result()
        await until_closed(sessions, handle)
        sizes = await history_sizes(sessions, handle.session)
        ((_, size),) = sizes
        history = await sessions.client.get_workflow_handle(handle.accepted.key.workflow_id).fetch_history()
    (execution,) = turn.tool_executions
    assert isinstance(execution.result, str)
    assert len(execution.result) == 20 * MIB
    assert size < 64 * 1024
    await Replayer(workflows=[], plugins=[perdure_plugin()]).replay_workflow(history)


async def test_s20_what_is_not_json_is_refused_at_submit(stack: Stack, steady: WorkerProcess) -> None:
    """S20: a value that cannot be stored is the caller's mistake, said at once; there is no session of it."""
    async with stack.connect() as sessions:
        opened = await act(sessions, "hello")
        await opened.result()
        with pytest.raises(InvalidInput, match="params"):
            await act(sessions, "never", session=opened.session, options=RunOptions(params={"timeout": object()}))  # type: ignore[dict-item]
        assert len(await list_runs(sessions.database, opened.accepted.key)) == 1


async def test_s34_s44_an_idle_chat_holds_no_workflow_and_goes_on(stack: Stack, steady: WorkerProcess) -> None:
    """S14, S34, S44: between inputs no execution is open; what was said is read from rows, and the next input finds it all."""
    async with stack.connect() as sessions:
        handle = await act(sessions, "first")
        for said in ("second", "third"):
            await handle.result()
            await until_closed(sessions, handle)
            handle = await act(sessions, said, session=handle.session)
        turn = await handle.result()
        await until_closed(sessions, handle)
        facts = await read_facts(sessions, handle.session)
        answers = [item.message.text for item in facts.messages if isinstance(item.message, AssistantMessage)]
        asked_over = {entry["history"] for entry in stack.entries(_name_of(turn.messages[0]), "model")}
    assert answers == ["first", "second", "third"]
    assert asked_over == {5}


def _name_of(message: Any) -> str:
    return str(json.loads(message.text)["name"])


async def test_s16_a_tool_that_outlasts_its_heartbeats(stack: Stack, steady: WorkerProcess) -> None:
    """S16: tools of 2 minutes, scaled, and longer than the heartbeat timeout, async and blocking: each is run once, to its end."""
    seconds = max(6.0, scaled(120))
    given = [spec(steps=1, tool=tool, seconds=seconds) for tool in ("at_most_once", "blocking")]
    async with stack.connect() as sessions:
        handles = [await submit(sessions, values) for values in given]
        for handle, values in zip(handles, given, strict=True):
            assert await finish(sessions, handle, seconds=seconds + 90) == "completed"
            assert [entry["attempt"] for entry in stack.entries(values["name"], "tool")] == [1]


async def test_l21_an_activity_that_is_paused_by_the_server(stack: Stack, steady: WorkerProcess) -> None:
    """L21: its attempt ends, nobody is told of a cancel, and the call goes on, by its effect class, once it is unpaused."""
    values = spec(steps=1, tool="idempotent", seconds=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        workflow = sessions.client.get_workflow_handle(handle.accepted.key.workflow_id)
        (pending,) = (await workflow.describe()).raw_description.pending_activities
        about = {"execution": {"workflow_id": workflow.id}, "id": pending.activity_id, "namespace": "default"}
        service = sessions.client.workflow_service
        await service.pause_activity(ParseDict(about, PauseActivityRequest()))

        async def is_paused() -> bool:
            (found,) = (await workflow.describe()).raw_description.pending_activities
            return found.paused and found.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED

        await eventually(is_paused, what="that the attempt has ended")
        assert (await handle.status()).status == "running"
        stack.release(values)
        await service.unpause_activity(ParseDict(about, UnpauseActivityRequest()))
        assert await finish(sessions, handle) == "completed"
    assert len({entry["idempotency"] for entry in stack.entries(values["name"], "tool")}) == 1
    await check_session(stack, handle.session, values["name"])


async def test_l49_a_loop_of_asks_takes_each_answer_for_its_own(stack: Stack, steady: WorkerProcess) -> None:
    """L49: the same call three times, one after the other: each is asked anew, and has its own answer."""
    name = new_name()
    answers: list[JSONObject] = [
        {"decision": "approve"},
        {"decision": "reject", "reason": "enough"},
        {"decision": "answer", "result": "by cash"},
    ]
    async with stack.connect() as sessions:
        script = [[call("pay", name, 1)]] * 3
        handle = await sessions.submit("clerk", json.dumps({"name": name, "script": [*script, "done"]}))
        seen: list[str] = []
        for answer in answers:
            (wait,) = await asked(sessions, handle)
            assert wait.id not in seen
            seen.append(wait.id)
            await sessions.answer(wait.id, answer, by="me")

            async def is_taken(wait_id: str = wait.id) -> bool:
                return wait_id not in {row.id for row in await sessions.waits(handle.session)}

            await eventually(is_taken, what="that the answer is taken")
        turn = await handle.result()
    assert paid(stack, name) == [1]
    assert [execution.approved for execution in turn.tool_executions] == [True, False, False]
    assert "enough" in str(turn.tool_executions[1].result)
    assert turn.tool_executions[2].result == "by cash"


async def test_l51_s53_going_on_in_a_sub_agent_begins_at_that_step(stack: Stack, steady: WorkerProcess) -> None:
    """L51, S53: from a sub-agent's second checkpoint only the steps behind it are done, there, and none of its parent's."""
    name = new_name()
    notes = [[{"tool": "note", "arguments": {"name": name, "key": f"{step}"}}] for step in range(4)]
    async with stack.connect() as sessions:
        script = [[ask("explorer", name, *notes, "explored")], "led"]
        handle = await sessions.submit("chief", json.dumps({"name": name, "script": script}))
        await handle.result()
        events = (await read_facts(sessions, handle.session)).events
        (child,) = [str(event.data["session"]) for event in events if event.type == "child.started"]
        taken = [event.data for event in (await read_facts(sessions, child)).events if event.type == "checkpoint"]
        bought, noted = len(stack.entries(name, "model")), len(stack.entries(name, "tool"))
        again = await sessions.resume_run(child, str(taken[1]["checkpointId"]))
        turn = await again.result()
    assert turn.response.text == "explored"
    later = dict.fromkeys((entry["who"], entry["number"]) for entry in stack.entries(name, "model")[bought:])
    assert list(later) == [("explorer", number) for number in (2, 3, 4)]
    assert list(dict.fromkeys(entry["key"] for entry in stack.entries(name, "tool")[noted:])) == ["2", "3"]


@pytest.mark.parametrize("tool", ["idempotent", "at_most_once"])
async def test_l31_a_death_in_a_batch_repeats_no_stored_call(stack: Stack, tmp_path: Path, tool: str) -> None:
    """L31, L33: three parallel tools, dead when two are stored: those two are never run again, the third if it may be."""
    values = spec(steps=1, calls=3, tool=tool)
    mark = {"PERDURE_CRASH_AT": "call_tool.stored#2", "PERDURE_CRASH_ONCE": str(tmp_path / "c")}
    first = WorkerProcess(stack, **mark).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
    runs = sorted(
        sum(entry["key"] == f"0.{place}" for entry in stack.entries(values["name"], "tool")) for place in range(3)
    )
    assert runs[:2] == [1, 1]
    assert runs[2] <= (2 if tool == "idempotent" else 1)
    await check_session(stack, handle.session, values["name"])
