"""Strategies of a user's own in the sandboxed twin of the session workflow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from perdure.errors import RunCancelled, StrategyError
from perdure.inprocess import InProcessHost
from perdure.runtime.session_document import session_document
from perdure.runtime.sessions import Sessions
from perdure.store.events import read_events
from perdure.uap import host
from perdure.uap.session_key import SessionKey
from perdure.upp.turn import Turn
from tests.integration.custom_strategies import LONG, agents
from tests.integration.facts import check_session, history_sizes
from tests.integration.stack import Stack, WorkerProcess, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.integration.custom_strategies:app"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(stack: Stack) -> AsyncGenerator[Sessions]:
    """A worker that serves the agents, and a connection."""
    worker = WorkerProcess(stack, APP, PERDURE_CONTINUE_AS_NEW_EVENTS="100").wait_ready()
    async with stack.connect() as connected:
        yield connected
    worker.kill()


def texts(turn: Turn) -> list[tuple[str, str]]:
    return [(str(message.type), message.text) for message in turn.messages]


async def test_the_specifications_example_runs(stack: Stack, sessions: Sessions) -> None:
    """Its turn is stored whole, its hooks got the whole messages and wrote the metadata of the state."""
    name = uuid.uuid4().hex
    given = json.dumps({"name": name, "filler": LONG})
    handle = await sessions.submit("custom", given)
    turn = await handle.result()
    assert texts(turn) == [("user", given), ("assistant", f"answer to {given[:30]!r} {LONG}")]
    (ended,) = stack.entries(name, "hook")
    assert [tuple(item) for item in ended["messages"]] == texts(turn)
    assert ended["turn"] == [text for _, text in texts(turn)]
    assert ended["metadata"] == {"started": 1}
    assert [entry["said"] for entry in stack.entries(name, "complete")] == [ended["turn"]]
    document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, handle.session))
    (checkpoint,) = document["checkpoints"]
    assert checkpoint["state"]["metadata"] == {"started": 1, "ended": 1}
    await check_session(stack, handle.session)


async def test_two_voices_at_once_and_a_judge(stack: Stack, sessions: Sessions) -> None:
    """Messages of the strategy's own and previews of the run's reach the model whole; the turn is what it returns."""
    name = uuid.uuid4().hex
    given = json.dumps({"name": name})
    handle = await sessions.submit("debate", given)
    turn = await handle.result()
    assert texts(turn) == [("user", given), ("user", "judge"), ("assistant", f"answer to 'judge' {LONG}")]
    bought = stack.entries(name, "model")
    assert sorted(entry["last"] for entry in bought[:2]) == ["argue against 1", "argue for 1"]
    assert sorted(entry["last"] for entry in bought[2:4]) == ["argue against 2", "argue for 2"]
    said = [given]
    for side in ("for", "against"):
        said += [f"argue {side} 2", f"answer to 'argue {side} 2' {LONG}"]
    assert bought[4]["said"] == [*said, "judge"]
    assert turn.cycles == 5
    await check_session(stack, handle.session, gaps=True)

    again = await sessions.submit("debate", json.dumps({"name": name, "again": True}), session=handle.session)
    await again.result()
    assert stack.entries(name, "model")[5]["said"][:3] == [text for _, text in texts(turn)]
    await check_session(stack, handle.session, gaps=True)


async def test_steps_with_tools_end_where_the_stop_condition_says(stack: Stack, sessions: Sessions) -> None:
    """Each step's tools run in the model call's loop; the strategy's own inputs stand where the turn has them."""
    name = uuid.uuid4().hex
    given = json.dumps({"name": name})
    handle = await sessions.submit("steps", given)
    turn = await handle.result()
    kinds = ["user", "assistant", "tool_result", "assistant"]
    assert [message.type for message in turn.messages] == kinds * 3
    assert [turn.messages[place].text for place in (0, 4, 8)] == [given, "go on 2", "go on 3"]
    assert [execution.result for execution in turn.tool_executions][:2] == [f"1.0 {LONG}", f"1.1 {LONG}"]
    ended = stack.entries(name, "hook")
    assert [(entry["step"], entry["executions"], entry["cycles"]) for entry in ended] == [(n, 2, 2) for n in (1, 2, 3)]
    assert [tuple(item) for item in ended[-1]["messages"]] == texts(turn)
    facts = await check_session(stack, handle.session)
    kinds = [event.type for event in facts.events if event.source == "uap"]
    assert kinds == ["step_start", "action", "observation", "step_end", "checkpoint"] * 3


@pytest.mark.parametrize("name", ["clock", "dice", "reads"])
async def test_what_is_not_deterministic_is_refused(stack: Stack, sessions: Sessions, name: str) -> None:
    """The run ends typed, and says which call it was."""
    handle = await sessions.submit(name, "Go.")
    called = {"clock": "time.time", "dice": "random.randint", "reads": "open"}[name]
    with pytest.raises(StrategyError, match=called) as raised:
        await handle.result()
    assert raised.value.code == "nondeterminism"
    await check_session(stack, handle.session)


async def test_what_is_no_turn_is_refused(stack: Stack, sessions: Sessions) -> None:
    """The run ends typed."""
    handle = await sessions.submit("wrong", "Go.")
    with pytest.raises(StrategyError, match="returned a str; it must return a Turn"):
        await handle.result()
    await check_session(stack, handle.session)


async def test_the_context_is_that_of_a_conversation(stack: Stack, sessions: Sessions) -> None:
    """Agent, history and tools are there; long parts of the input are cut, and sent whole."""
    first = await sessions.submit("looks", "Hello.")
    await first.result()
    name = uuid.uuid4().hex
    second = await sessions.submit("looks", json.dumps({"name": name, "filler": LONG}), session=first.session)
    turn = await second.result()
    assert turn.messages[1].text == json.dumps(["looks", 3, ["look"], True])
    (bought,) = stack.entries(name, "model")
    assert [len(text) > 3000 for text in bought["said"]] == [False, False, True, True, False]
    await check_session(stack, first.session)


@pytest.mark.parametrize("name", ["waits", "sleeps"])
async def test_cancelling_is_reflected_by_the_signal(stack: Stack, sessions: Sessions, name: str) -> None:
    """A strategy that waits for the signal hears of it; one that does not is ended all the same."""
    handle = await sessions.submit(name, "Go.")

    async def answered() -> bool:
        found = await read_events(sessions.database, SessionKey(sessions.tenant, handle.session), after=0)
        return any(event.type == "message_stop" for event in found)

    await eventually(answered, what="the answer")
    await sessions.cancel(handle.session, run=handle.id)
    with pytest.raises(RunCancelled):
        await asyncio.wait_for(handle.result(), 90)
    await check_session(stack, handle.session)


async def read_all(made: Any, given: str) -> tuple[list[Any], Turn]:
    stream = made.stream(given)
    events = [event.to_json() async for event in stream]
    return events, await stream.turn


@pytest.mark.parametrize("name", ["custom", "quiet"])
async def test_a_stream_has_exactly_the_strategys_events(sessions: Sessions, name: str) -> None:
    """The same in both hosts, in order."""
    durable, turn = await read_all(agents[name], "Hello.")
    with host.connected(InProcessHost()):
        here, same = await read_all(agents[name], "Hello.")
    assert durable == here
    assert texts(turn) == texts(same)
    if name == "quiet":
        assert [event["uap"]["data"] for event in durable] == [{"text": "thought 1"}, {"text": "thought 2"}]
    else:
        assert durable[0]["uap"]["data"] == {"mine": "begins"}
        assert [event["source"] for event in durable] == ["uap", *["upp"] * (len(durable) - 1)]


async def test_a_resumable_strategy_goes_on_over_executions(stack: Stack, sessions: Sessions) -> None:
    """Continued as new at its steps' ends, it begins behind the last one."""
    name = uuid.uuid4().hex
    handle = await sessions.submit("resumes", json.dumps({"name": name}))
    turn = await handle.result()
    assert turn.messages[0].text == "step 20"
    assert [entry["last"] for entry in stack.entries(name, "model")] == [f"step {n}" for n in range(1, 21)]

    async def are_several() -> bool:
        return len(await history_sizes(sessions, handle.session)) > 1

    await eventually(are_several, what="several executions in Temporal's list, which is late")
    await check_session(stack, handle.session, gaps=True)


@pytest.mark.parametrize("name", ["custom", "debate", "steps"])
async def test_both_hosts_come_to_the_same(
    stack: Stack, sessions: Sessions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S22: Turn, hooks with their states, and what the model was sent."""
    monkeypatch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
    ledgers: list[Any] = []
    turns: list[Turn] = []
    for runner in (None, InProcessHost()):
        test = uuid.uuid4().hex
        with host.connected(runner) if runner else contextlib.nullcontext():
            turns.append(await agents[name].run(json.dumps({"filler": LONG, "name": test})))
        ledgers.append(seen_of(stack, test))
    assert ledgers[0] == ledgers[1]
    durable, here = turns
    assert [str(message.type) for message in durable.messages] == [str(message.type) for message in here.messages]
    assert texts(durable)[1:] == texts(here)[1:]
    assert [execution.result for execution in durable.tool_executions][: len(here.tool_executions)] == [
        execution.result for execution in here.tool_executions
    ]


def seen_of(stack: Stack, name: str) -> list[str]:
    """What the ledger has of a test, without its name, its times and its processes; model calls at once in any order."""
    entries = [
        {key: value for key, value in entry.items() if key not in ("pid", "at")} for entry in stack.entries(name)
    ]
    lines = [json.dumps(entry).replace(name, "NAME") for entry in entries]
    return sorted(lines)
