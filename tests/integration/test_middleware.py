"""Middleware around durable runs: what is true in process is true of a workflow."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from decimal import Decimal
from typing import Any, cast

import pytest
import pytest_asyncio

from perdure.errors import GuardrailRejected, LimitExceeded, PerdureError, RunCancelled
from perdure.inprocess import InProcessHost
from perdure.runtime.session_document import session_document
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.host import connected
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue, dumps
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.prices import Price, PriceTable
from perdure.upp.turn import Turn
from tests.integration.facts import check_session, count_activities
from tests.integration.middleware_agents import AGENTS, SECRET
from tests.integration.serving import serving
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "middleware"
PRICES: PriceTable = {"scripted": {"scripted": Price(Decimal("0.01"), Decimal("0.02"))}}
BY_NAME = {str(one.name): one for one in AGENTS}
HISTORY = [
    UserMessage('{"name": "one"}'),
    AssistantMessage("1"),
    UserMessage('{"name": "two"}'),
    AssistantMessage("2"),
]


@pytest.fixture(scope="module", autouse=True)
def ledger(stack: Stack) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def served(stack: Stack) -> AsyncGenerator[None, None]:
    """All agents, served by one worker of this process."""
    async with serving(stack, QUEUE, AGENTS, prices=PRICES):
        yield


def given(**spec: Any) -> tuple[str, str]:
    """A name of the test's own, and the input that says it."""
    name = uuid.uuid4().hex
    return name, json.dumps({"name": name, **spec})


async def in_process(agent: Agent, said: str, history: list[Message] | None = None) -> Turn | PerdureError | Exception:
    with connected(InProcessHost(PRICES)):
        try:
            return await agent.run(history or [], said)
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            return error


async def durable(handle: RunHandle) -> Turn | PerdureError:
    try:
        return await handle.result()
    except PerdureError as error:
        return error


async def exported(sessions: Sessions, session: str) -> Any:
    return await session_document(sessions.database, SessionKey(sessions.tenant, session))


async def thread(sessions: Sessions, session: str) -> list[str]:
    document = await exported(sessions, session)
    (node,) = document["threadTree"]["nodes"]
    return [
        "".join(block.get("text", "") for block in message["content"]) or message["type"]
        for message in node["thread"]["messages"]
    ]


async def rows_of(handle: RunHandle) -> list[str]:
    return [event.type for event in [item async for item in handle.events()]]


def hooks(stack: Stack, name: str) -> list[Any]:
    """What was called, in order, with what it was given that is the same in both hosts."""
    kept = ("hook", "metadata", "said", "step", "spent", "data")
    text = json.dumps([{key: entry[key] for key in kept if key in entry} for entry in stack.entries(name, "around")])
    told: list[Any] = json.loads(text.replace(name, "NAME"))
    for entry in told:
        if "metadata" in entry:
            assert set(entry["metadata"].pop("uap")) == {"agentId", "turnId"}
    return told


@pytest.mark.parametrize(
    ("spec", "outcome"),
    [
        ({"rounds": 2}, "done after 2"),
        ({"fail": 0}, "no more"),
        ({"fail": 0, "recovers": "strategy"}, "sorry"),
        ({"fail": 1, "rounds": 1, "recovers": "b"}, "b recovered"),
        ({"raises": "b.before"}, "b.before"),
        ({"raises": "b.before", "recovers": "b"}, "b recovered"),
        ({"raises": "b.before", "recovers": "a"}, "a recovered"),
        ({"raises": "b.after"}, "b.after"),
        ({"raises": "b.after", "recovers": "a", "rounds": 1}, "a recovered"),
        ({"raises": "b.on_error", "fail": 0}, "b.on_error"),
        ({"raises": "c.action", "rounds": 1}, "c.action"),
        ({"raises": "a.step_start", "recovers": "c"}, "c recovered"),
    ],
    ids=lambda value: "-".join(f"{name}-{item}" for name, item in value.items()) if isinstance(value, dict) else None,  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType, reportUnknownVariableType]
)
async def test_hooks_are_called_in_the_order_of_the_in_process_host(
    stack: Stack, spec: dict[str, Any], outcome: str
) -> None:
    """With the same context, told of the same events; and the run comes to the same."""
    there, said_there = given(**spec)
    here, said_here = given(**spec)
    async with stack.connect() as sessions:
        handle = await sessions.submit("traced", said_there)
        came = await durable(handle)
        kept = await thread(sessions, handle.session)
    went = await in_process(BY_NAME["traced"], said_here)
    assert hooks(stack, there) == hooks(stack, here)
    assert [type(came) is Turn, type(went) is Turn] == [isinstance(came, Turn)] * 2
    for result, name in ((came, there), (went, here)):
        text = result.response.text if isinstance(result, Turn) else str(result)
        assert outcome in text, name
    if isinstance(came, Turn) and isinstance(went, Turn):
        assert [message.type for message in came.messages] == [message.type for message in went.messages]
        assert len(kept) == len(came.messages)
        assert (kept[0], kept[-1]) == (came.messages[0].text, came.messages[-1].text)
    else:
        assert kept == []
    await check_session(stack, handle.session)


async def test_a_rejected_input_is_never_sent(stack: Stack) -> None:
    name, said = given(text=SECRET)
    async with stack.connect() as sessions:
        handle = await sessions.submit("guarded", said)
        with pytest.raises(GuardrailRejected) as raised:
            await handle.result()
        kept = await thread(sessions, handle.session)
    assert (raised.value.code, raised.value.run_id) == ("input_rejected", handle.id)
    assert stack.entries(name, "model") == []
    assert kept == []


async def test_a_changed_input_is_the_only_one_there_is(stack: Stack) -> None:
    """For the model, in the turn, in the thread, in the checkpoints; and the next run goes on from it."""
    name, said = given(who="Alice")
    async with stack.connect() as sessions:
        handle = await sessions.submit("guarded", said)
        turn = await handle.result()
        again = await sessions.submit("guarded", given()[1], session=handle.session)
        await again.result()
        document = dumps(await exported(sessions, handle.session)).decode()
    assert turn.messages[0].text == said.replace("Alice", "A.")
    assert [entry["input"] for entry in stack.entries(name, "model")] == [said.replace("Alice", "A.")]
    assert "Alice" not in document
    assert document.count("A.") >= 2
    await check_session(stack, handle.session)


async def test_a_changed_answer_is_the_only_one_there_is(stack: Stack) -> None:
    """In the turn, the thread, the checkpoints, the log; the stream's model events are those of the in-process host."""
    _, said = given(text="Bob did it")
    guarded = BY_NAME["guarded"]
    async with stack.connect() as sessions:
        stream = guarded.stream(said)
        streamed = [event async for event in stream]
        turn = await stream.turn
        handle = await sessions.submit("guarded", said)
        assert (await handle.result()).response.text == turn.response.text == "B. did it"
        rows = [event async for event in handle.events()]
        document = dumps(await exported(sessions, handle.session)).decode()
        kept = await thread(sessions, handle.session)
    with connected(InProcessHost(PRICES)):
        here = guarded.stream(said)
        in_memory = [event async for event in here]
        assert (await here.turn).response.text == "B. did it"
    assert kept[1:] == ["B. did it"]
    assert "Bob" not in "".join(f"{row.data}" for row in rows)
    assert "Bob" not in document.replace("Bob did it\\\\\\", "").replace(json.dumps(said)[1:-1], "")
    assert _model_events(streamed) == _model_events(in_memory)
    await check_session(stack, handle.session)


def _model_events(events: list[AgentStreamEvent]) -> list[str]:
    """Types of the model's events with their text, pieces joined."""
    told: list[str] = []
    for event in events:
        if event.upp is None:
            continue
        kind, text = str(event.upp.type), event.upp.delta.text or ""
        if told and told[-1].startswith(f"{kind}:") and text:
            told[-1] += text
        else:
            told.append(f"{kind}:{text}")
    return told


async def test_tools_and_reasoning_of_a_guarded_run_are_told_after_the_check(stack: Stack) -> None:
    """Step by step what no model wrote, and at the end, in order, what one did."""
    _, said = given(rounds=2, text="fine")
    async with stack.connect() as sessions:
        handle = await sessions.submit("reasoning_guarded", said)
        turn = await handle.result()
        kinds = await rows_of(handle)
        stream = BY_NAME["reasoning_guarded"].stream(said)
        told = [event.uap async for event in stream if event.uap is not None]
    assert turn.response.text
    early = ["step_start", "tool_execution_start", "tool_execution_end", "observation", "step_end", "checkpoint"]
    assert [kind for kind in kinds if kind in early][: len(early)] == early
    assert not {"message_start", "action", "reasoning"} & set(kinds[: kinds.index("checkpoint")])
    late = [kind for kind in kinds if kind in ("reasoning", "action", "message_start")]
    assert late == [
        "message_start",
        "reasoning",
        "message_start",
        "action",
        "message_start",
        "reasoning",
        "message_start",
    ]
    assert [event.step for event in told if event.type == "action"] == [1]


async def test_nothing_unchecked_is_shown_while_a_guarded_run_goes_on_or_after_it_was_refused(stack: Stack) -> None:
    """Reading 4.50: what was cancelled before any answer that may be shown leaves nothing, its input neither."""
    name, said = given(rounds=1, slow="z.after", code=f"{SECRET[:3]}")
    said = said.replace('"rounds"', '"text": "the sec" , "rounds"')
    async with stack.connect() as sessions:
        handle = await sessions.submit("guarded", said)
        await eventually(lambda: _has(stack, name, "z.after"), what="the run is about to be checked")
        during = [await thread(sessions, handle.session), await exported(sessions, handle.session)]
        assert (await sessions.cancel(handle.session, wait_s=60)).state == "cancelled"
        with pytest.raises(RunCancelled):
            await handle.result()
        after = [await thread(sessions, handle.session), await exported(sessions, handle.session)]
        rows = [event async for event in handle.events()]
    assert [during[0], after[0]] == [[said], []]
    for document in (during[1], after[1]):
        assert "the sec" not in dumps(cast(JSONValue, document)).decode().replace(json.dumps(said)[1:-1], "").replace(
            said, ""
        )
    assert not [row for row in rows if row.type in ("text_delta", "action", "message_start")]


async def _has(stack: Stack, name: str, hook: str) -> bool:
    return any(entry["hook"] == hook for entry in stack.entries(name, "around"))


async def test_a_refused_answer_leaves_nothing(stack: Stack) -> None:
    name, said = given(rounds=1)
    async with stack.connect() as sessions:
        handle = await sessions.submit("sheltered", said.replace("}", f', "text": "{SECRET}"}}'))
        with pytest.raises(GuardrailRejected) as raised:
            await handle.result()
        kept = await thread(sessions, handle.session)
        rows = [event async for event in handle.events()]
        document = await exported(sessions, handle.session)
    assert (raised.value.code, kept) == ("output_rejected", [])
    assert len(stack.entries(name, "model")) == 2
    assert not [row for row in rows if row.type in ("text_delta", "action", "message_start")]
    states = [checkpoint["state"]["messages"] for checkpoint in document["checkpoints"]]
    assert [[message["type"] for message in messages] for messages in states] == [["user"], ["user"]]


async def test_a_hooks_turn_is_checked_like_any_other(stack: Stack) -> None:
    """The turn that on_error returned is the run's, without the answers that it left out."""
    _, said = given(rounds=1, fail=1, recovers="strategy")
    async with stack.connect() as sessions:
        handle = await sessions.submit("sheltered", said)
        turn = await handle.result()
        kept = await thread(sessions, handle.session)
    assert turn.response.text == "sorry"
    assert kept == [said, "assistant", "tool_result", "sorry"]


@pytest.mark.parametrize(
    ("agent", "seen"),
    [
        ("remembering", ['{"name": "two"}', "2"]),
        ("summing", ["Summary of the conversation so far:\n\none + 1", '{"name": "two"}', "2"]),
        ("shelved", [*(message.text for message in HISTORY), "From memory, perhaps of use for what comes next:\n\nfound on the shelf"]),
    ],
    ids=["window", "summary", "retriever"],
)  # fmt: skip
async def test_memory_changes_what_the_model_sees_and_nothing_else(stack: Stack, agent: str, seen: list[str]) -> None:
    """In every step; the thread keeps the whole history; a second look at the same conversation is the same."""
    there, said_there = given(rounds=1)
    here, said_here = given(rounds=1)
    async with stack.connect() as sessions:
        first = await sessions.submit(agent, HISTORY[0])
        for said in (HISTORY[2], said_there):
            await first.result()
            first = await sessions.submit(agent, said, session=first.session)
        await first.result()
        kept = await thread(sessions, first.session)
        turn = await BY_NAME[agent].run(HISTORY, said_there)
    await in_process(BY_NAME[agent], said_here, list(HISTORY))
    durable_views = [entry["before"] for entry in stack.entries(there, "model")]
    in_thread = [
        text.replace("1", "done after 0").replace("2", "done after 0") if text in "12" else text for text in seen
    ]
    if agent == "summing":
        in_thread[0] = in_thread[0].replace("+ 1", "+ done after 0")
    elif agent == "shelved":
        in_thread = [seen[0], "done after 0", seen[2], "done after 0", seen[4]]
    assert durable_views == [in_thread, in_thread, seen, seen]
    assert [entry["before"] for entry in stack.entries(here, "model")] == [seen, seen]
    assert len(turn.messages) == 4
    assert kept[:4] == [HISTORY[0].text, "done after 0", HISTORY[2].text, "done after 0"]


@pytest.mark.parametrize(
    ("agent", "code", "steps"),
    [("by_tokens", "max_tokens", 3), ("by_steps", "max_steps", 3), ("by_cost", "max_cost", 2), ("by_time", "max_time", 1)],
)  # fmt: skip
async def test_a_budget_ends_a_run_before_the_step_that_would_be_over_it(
    stack: Stack, agent: str, code: str, steps: int
) -> None:
    spec = {"rounds": 9, "latency": 5.5 if code == "max_time" else 0}
    there, said_there = given(**spec)
    here, said_here = given(**spec)
    running = asyncio.create_task(in_process(BY_NAME[agent], said_here))
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, said_there)
        with pytest.raises(LimitExceeded) as raised:
            await handle.result()
        counts = await count_activities(sessions, handle.session)
    went = await running
    assert isinstance(went, LimitExceeded)
    assert (raised.value.code, went.code, raised.value.run_id) == (code, code, handle.id)
    assert went.run_id is not None
    asked = [{entry["number"] for entry in stack.entries(name, "model")} for name in (there, here)]
    assert asked == [set(range(steps))] * 2
    if code != "max_time":
        assert str(raised.value) == str(went)
    assert counts["perdure.around"] == 1 + (steps + 1) + 1


async def test_logging_writes_the_lines_of_the_in_process_host(stack: Stack) -> None:
    _, said = given(rounds=1)

    def lines() -> list[str]:
        return [entry["line"] for entry in stack.entries("lines", "line")]

    before = len(lines())
    async with stack.connect():
        await BY_NAME["logged"].run(said)
    between = len(lines())
    await in_process(BY_NAME["logged"], said)
    there, here = lines()[before:between], lines()[between:]
    assert [_timeless(line) for line in there] == [_timeless(line) for line in here]
    assert sum("step 1" in line for line in there) == 3


def _timeless(line: str) -> str:
    return " ".join("T" if any(char.isdigit() for char in word) and "s" in word[-3:] else word for word in line.split())


async def test_a_run_is_cancelled_during_before(stack: Stack) -> None:
    name, said = given(slow="b.before")
    async with stack.connect() as sessions:
        handle = await sessions.submit("traced", said)
        await eventually(lambda: _has(stack, name, "b.before"), what="before")
        assert (await sessions.cancel(handle.session, wait_s=60)).state == "cancelled"
    assert [entry["hook"] for entry in stack.entries(name, "around")] == ["a.before", "b.before"]
    await check_session(stack, handle.session)


async def test_the_partial_turn_of_an_aborted_stream_has_nothing_unchecked(stack: Stack) -> None:
    _, said = given(rounds=1, slow="z.after")
    async with stack.connect():
        stream = BY_NAME["guarded"].stream(said.replace("}", ', "text": "Bob"}'))
        async for event in stream:
            if event.uap is not None and event.uap.type == "observation":
                stream.abort()
        turn = await stream.turn
    assert [message.type for message in turn.messages] == ["user", "assistant"]
    assert turn.response.text == ""
