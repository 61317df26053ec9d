"""Runs from start to end: what goes wrong in tools and models, options, waits, and the same turn in both hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.errors import LimitExceeded
from perdure.inprocess import InProcessHost
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.waits import open_waits
from perdure.uap.options import RunOptions
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolResult
from perdure.upp.turn import Turn
from tests.integration import agents
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, settle_waits, spec


async def act(sessions: Sessions, script: list[Any], options: RunOptions | None = None, **more: Any) -> RunHandle:
    """Submit a script to the actor."""
    return await sessions.submit("actor", json.dumps(spec(script=script, **more)), options=options)


def call(tool_name: str, /, **arguments: Any) -> dict[str, Any]:
    """One tool call of a script."""
    return {"tool": tool_name, "arguments": arguments}


async def results_of(stack: Stack, script: list[Any]) -> list[ToolResult]:
    """The results of the first tool batch of a script that completes."""
    async with stack.connect() as sessions:
        handle = await act(sessions, script)
        turn = await handle.result()
    await check_session(stack, handle.session)
    batch = turn.messages[2]
    assert isinstance(batch, ToolResultMessage)
    return list(batch.results)


BAD = [
    (call("open_file"), "not JSON"),
    (call("failing", text="it broke\x00\ud800"), "it broke"),
    (call("no_such_tool"), "not found"),
    (call("slow"), "timed out after 0.3 s"),
    ({"tool": "huge", "arguments": [1]}, "must be a JSON object"),
    ({"tool": "huge", "arguments": "{bad"}, "must be a JSON object"),
    (call("huge", size="many"), "size"),
    (call("nul\x00 \ud800 name"), "not found"),
]


async def test_what_goes_wrong_with_a_tool_is_a_result(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S30: Each bad call, all in one batch, is an error result in its place; the run goes on."""
    results = await results_of(stack, [[item for item, _ in BAD], "went on"])
    assert [result.is_error for result in results] == [True] * len(BAD)
    for result, (_, text) in zip(results, BAD, strict=True):
        assert text in str(result.result), result


async def test_a_5_mb_result_is_kept_whole(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S49: The model and the thread get all of it, Temporal a preview."""
    results = await results_of(stack, [[call("huge", size=5_000_000), call("huge", size=3)], "ok"])
    assert [len(str(result.result)) for result in results] == [5_000_000, 3]


async def test_barriers_and_many_calls_keep_their_order(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S23: Sixteen calls with barriers among them: results in call order, a barrier alone."""
    arguments = {"name": "barriers", "seconds": 0.01, "filler": ""}
    tools = ["none", "none", "barrier", "none"] * 4
    calls = [call(tool, key=f"{place:02}", **arguments) for place, tool in enumerate(tools)]
    results = await results_of(stack, [calls, "ok"])
    assert [str(result.result)[:2] for result in results] == [f"{place:02}" for place in range(16)]
    log = [entry for entry in stack.entries("barriers") if entry["kind"] in ("tool", "tool_done")]
    for place, tool in enumerate(tools):
        if tool == "barrier":
            begun = next(n for n, e in enumerate(log) if e["kind"] == "tool" and e["key"] == f"{place:02}")
            assert log[begun + 1]["kind"] == "tool_done"
            assert log[begun + 1]["key"] == f"{place:02}"


@pytest.mark.parametrize("code", ["AUTHENTICATION_FAILED", "CONTEXT_LENGTH_EXCEEDED", "INVALID_REQUEST"])
async def test_a_model_error_fails_the_run_with_its_type(stack: Stack, steady_worker: WorkerProcess, code: str) -> None:
    """What no repetition cures ends the run at once, as the UPPError it is; the thread stays as it was."""
    async with stack.connect() as sessions:
        handle = await act(sessions, [[call("huge", size=1)], {"error": code}])
        with pytest.raises(UPPError) as raised:
            await handle.result()
        assert raised.value.code == code
        after = await sessions.submit("actor", json.dumps(spec(script=["fine"])), session=handle.session)
        turn = await after.result()
        assert turn.response.text == "fine"
    await check_session(stack, handle.session)
    name = json.loads(turn.messages[0].text)["name"]
    assert stack.entries(name, "model")[0]["history"] == 1, "a failed run leaves the thread untouched"


async def test_limits_end_a_run_with_their_type(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S03: The strategy's limit is UPP's INVALID_REQUEST, the option's a LimitExceeded; both leave a valid thread."""
    endless = [[call("huge", size=1)]] * 9
    async with stack.connect() as sessions:
        handle = await act(sessions, endless)
        with pytest.raises(UPPError, match="maximum iterations"):
            await handle.result()
        limited = await act(sessions, endless, RunOptions(max_steps=2))
        with pytest.raises(LimitExceeded, match="2 steps"):
            await limited.result()
    for session in (handle.session, limited.session):
        await check_session(stack, session)


async def test_options_reach_the_model(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Instructions come below the agent's; a replacement history takes the thread's place for this run only."""
    history = [UserMessage("earlier").to_json(), UserMessage("words").to_json()]
    values = spec(script=["one"])
    async with stack.connect() as sessions:
        handle = await sessions.submit(
            "actor", json.dumps(values), options=RunOptions(instructions="Be brief.", history=history)
        )
        await handle.result()
    entry = stack.entries(values["name"], "model")[0]
    assert entry["system"] == "Follow the script.\n\nBe brief."
    assert entry["history"] == 3


async def test_a_client_side_tool_waits_for_its_result(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A tool without a function here parks the run until somebody answers, once."""
    options = RunOptions(client_tools=[{"name": "pick_colour", "description": "Ask the user."}])
    async with stack.connect() as sessions:
        handle = await act(sessions, [[call("pick_colour", of="sky"), call("huge", size=2)], "thanks"], options)
        waits = await eventually(lambda: open_waits(sessions.database, "default", handle.session))
        assert [wait.kind for wait in waits] == ["client_tool"]
        assert waits[0].asked["tool"] == "pick_colour"
        await settle_waits(sessions, handle.session, {"result": "blue"})
        assert await finish(sessions, handle, {"result": "again"}) == "completed"
        turn = await handle.result()
    batch = turn.messages[2]
    assert isinstance(batch, ToolResultMessage)
    assert [result.result for result in batch.results] == ["blue", "yy"]
    await check_session(stack, handle.session)


def _comparable(turn: Turn) -> Any:
    """A turn without what differs by nature: ids, times and durations."""
    text = json.loads(json.dumps(turn.to_json()))
    for message in text["messages"]:
        message.pop("id")
        message.pop("timestamp")
    for execution in text["toolExecutions"]:
        execution.pop("duration")
    return text


SCRIPTS: list[list[Any]] = [
    ["hello"],
    [[call("huge", size=2000)], "after one"],
    [[item for item, _ in BAD], [call("huge", size=3), call("failing", text="x")], "after two"],
]


@pytest.mark.parametrize("script", SCRIPTS, ids=["answer", "tool", "errors"])
async def test_both_hosts_give_the_same_turn(
    stack: Stack, steady_worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch, script: list[Any]
) -> None:
    """One algorithm, two hosts: the same turn for the same answers."""
    monkeypatch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
    message = UserMessage(json.dumps(spec(script=script)))
    here = await InProcessHost().run(agents.actor, [], message, RunOptions())
    async with stack.connect():
        durable = await agents.actor.run(message)
    assert _comparable(durable) == _comparable(here)


async def test_agent_run_with_history_is_the_same_in_both_hosts(
    stack: Stack, steady_worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """run(history, input): the turn holds only its own messages, and the history is untouched."""
    monkeypatch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
    history = [UserMessage("one"), UserMessage("two")]
    message = UserMessage(json.dumps(spec(script=["fine"])))
    here = await InProcessHost().run(agents.actor, history, message, RunOptions())
    async with stack.connect():
        durable = await agents.actor.run(history, message)
    assert _comparable(durable) == _comparable(here)
    assert len(history) == 2


async def test_a_retryable_model_error_is_tried_again(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A provider's passing error costs tries, not the run; it gives up after five."""
    async with stack.connect() as sessions:
        handle = await act(sessions, [{"error": "RATE_LIMITED"}])
        with pytest.raises(UPPError) as raised:
            await handle.result()
    assert raised.value.code == ErrorCode.RATE_LIMITED
    name = json.loads(await _input(stack, handle))["name"]
    assert len(stack.entries(name, "model")) == 5


async def _input(stack: Stack, handle: RunHandle) -> str:
    facts = await check_session(stack, handle.session)
    return facts.messages[0].message.text
