"""In process and durable, run and streamed: for whatever a model answers, the same comes of it."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings

from perdure.errors import PerdureError
from perdure.runtime.session_document import session_document
from perdure.runtime.sessions import Sessions
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session import session
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import message_from_json
from perdure.upp.turn import Turn
from tests.conformance.uap_scenarios import planned
from tests.conformance.uap_streams import kind
from tests.integration import equivalence
from tests.integration.equivalence import AGENTS, begin, error_json, plain, scripts, turn_json
from tests.integration.facts import check_session
from tests.integration.serving import serving
from tests.integration.stack import Stack
from tests.scale import scaled

QUEUE = "equivalence"
reproducible = functools.partial(
    settings,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""The same examples each time."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    """One worker in this process, so that what is noted there is noted here."""
    async with serving(stack, QUEUE, list(AGENTS.values())):
        yield


async def outcome(work: Awaitable[Turn]) -> Any:
    """The turn, or the error."""
    try:
        return turn_json(await work)
    except PerdureError as error:
        return error_json(error)


def told_to_users(notes: Sequence[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """What the model and the hooks were given, in order; and the tools, which run at the same time, in any."""
    entries = [{name: item for name, item in entry.items() if name not in ("pid", "at", "name")} for entry in notes]
    ordered = [entry for entry in entries if entry["kind"] != "tool"]
    return ordered, sorted((entry for entry in entries if entry["kind"] == "tool"), key=repr)


def seen(events: Sequence[AgentStreamEvent]) -> list[Any]:
    """The events that a reader is left with who heeds resets, the deltas of a block in one; without checkpoints.

    Tools that run at the same time end in any order: their events come in that of the calls.
    """
    left: list[AgentStreamEvent] = []
    for event in events:
        if event.uap is not None and event.uap.type == "reset":
            void = [place for place, item in enumerate(left) if item.upp is not None]
            for place in reversed(void[len(void) - int(str(event.uap.data["events"])) :]):
                del left[place]
        elif kind(event) != "checkpoint":
            left.append(event)
    told: list[Any] = []
    for what, group in itertools.groupby(left, key=kind):
        if what == "tool_execution_end":
            told += [plain(event.to_json()) for event in sorted(group, key=_index)]
        elif what.endswith("_delta"):
            told += [_joined(block) for _, block in itertools.groupby(group, key=_index)]
        else:
            told += [plain(event.to_json()) for event in group]
    return told


def _index(event: AgentStreamEvent) -> int:
    assert event.upp is not None
    return event.upp.index


def _joined(block: Iterable[AgentStreamEvent]) -> Any:
    first, *more = [plain(event.to_json()) for event in block]
    for event in more:
        for name, text in event["upp"]["delta"].items():
            first["upp"]["delta"][name] += text
    return first


async def read(stream: AgentStreamResult) -> tuple[Any, list[Any]]:
    """What comes of a stream, and its events until then."""
    events: list[AgentStreamEvent] = []
    raised: Any = None
    try:
        async for event in stream:
            events += [event]
    except PerdureError as error:
        raised = error_json(error)
    came = await outcome(stream.turn)
    assert raised in (None, came)
    return came, seen(events)


@dataclass
class Told:
    """What a run came to, and what everybody was told."""

    outcome: Any
    ordered: list[Any]
    tools: list[Any]
    events: list[Any] | None = None
    states: list[Any] | None = None
    thread: list[Any] | None = None


def document_parts(document: Any) -> tuple[list[Any], list[Any]]:
    """The states at the steps' ends, and the messages of the thread.

    A plan that is all that a run has answered is left out: a thread in this process has it, a durable one does not.
    """
    (node,) = document["threadTree"]["nodes"]
    said = [message for message in node["thread"]["messages"] if not scaffold_of(message_from_json(message))]
    return plain([item["state"] for item in document["checkpoints"]]), plain(said)


async def run_here(name: str, text: str) -> Told:
    """Run an agent in this process."""
    begin()
    came = await outcome(AGENTS[name].run(text))
    return Told(came, *told_to_users(equivalence.noted))


async def stream_here(name: str, text: str) -> Told:
    """Stream it."""
    begin()
    came, events = await read(AGENTS[name].stream(text))
    return Told(came, *told_to_users(equivalence.noted), events=events)


async def run_session_here(name: str, text: str) -> Told:
    """Run it in a session."""
    begin()
    made = session(AGENTS[name])
    came = await outcome(made.run(text))
    states, thread = document_parts(made.to_json())
    return Told(came, *told_to_users(equivalence.noted), states=states, thread=thread)


async def last_session(sessions: Sessions, name: str) -> str:
    """The id of an agent's last session."""
    sql = "select id from perdure.sessions where agent = $1 order by created_at desc limit 1"
    async with sessions.database.driver() as connection:
        return str(await connection.fetchval(sql, name))


async def durable(stack: Stack, name: str, text: str, *, stream: bool) -> Told:
    """Run or stream it in the worker of this module."""
    begin()
    events: list[Any] | None = None
    async with stack.connect() as sessions:
        if stream:
            came, events = await read(AGENTS[name].stream(text))
        else:
            came = await outcome(AGENTS[name].run(text))
        ordered, tools = told_to_users(equivalence.noted)
        ident = await last_session(sessions, name)
        document = await session_document(sessions.database, SessionKey(sessions.tenant, ident))
    await check_session(stack, ident)
    states, thread = document_parts(document)
    return Told(came, ordered, tools, events, states, thread)


@given(scripts())
@reproducible(max_examples=max(30, scaled(600)))
async def test_a_stream_is_a_run(script: tuple[str, str]) -> None:
    """In process, where it costs little."""
    ran, streamed = await run_here(*script), await stream_here(*script)
    assert (streamed.outcome, streamed.ordered, streamed.tools) == (ran.outcome, ran.ordered, ran.tools)


async def check(stack: Stack, script: tuple[str, str]) -> None:
    """The turn or error, what the model, the hooks and the tools are given, the states, the thread and the events."""
    ran, streamed, kept = await run_here(*script), await stream_here(*script), await run_session_here(*script)
    assert (kept.outcome, kept.ordered, kept.tools) == (ran.outcome, ran.ordered, ran.tools)
    submitted = await durable(stack, *script, stream=False)
    watched = await durable(stack, *script, stream=True)
    for other in (submitted, watched):
        assert other.outcome == ran.outcome
        assert other.ordered == ran.ordered
        assert other.tools == ran.tools
        assert other.states == kept.states
        assert other.thread == kept.thread
    assert watched.events == streamed.events


durably = reproducible(max_examples=max(2, scaled(33)), phases=[Phase.generate])


@pytest.mark.asyncio(loop_scope="module")
@given(script=scripts("loop"))
@durably
async def test_loop_is_the_same_where_it_is_durable(stack: Stack, worker: None, script: tuple[str, str]) -> None:
    await check(stack, script)


@pytest.mark.asyncio(loop_scope="module")
@given(script=scripts("react"))
@durably
async def test_react_is_the_same_where_it_is_durable(stack: Stack, worker: None, script: tuple[str, str]) -> None:
    await check(stack, script)


@pytest.mark.asyncio(loop_scope="module")
@given(script=scripts("plan"))
@durably
async def test_plan_is_the_same_where_it_is_durable(stack: Stack, worker: None, script: tuple[str, str]) -> None:
    await check(stack, script)


@pytest.mark.asyncio(loop_scope="module")
@given(script=scripts("staged"))
@durably
async def test_staged_is_the_same_where_it_is_durable(stack: Stack, worker: None, script: tuple[str, str]) -> None:
    await check(stack, script)


ECHO = {"text": "", "calls": [{"id": "same", "tool": "echo", "arguments": {"text": "e"}}]}


def _walk(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"text": "", "calls": [{"id": "same", "tool": name, "arguments": given} for name, given in calls]}


DESK = ("transition_stage", {"target_stage": "desk"})
WALKED = [
    _walk(("put", {"item": "pen", "times": 400}), ("echo", {"text": "e"}), ("break_it", {"why": "so"}), DESK),
    _walk(("provide_state", {"name": ["Ada"] * 500}), ("fail", {"why": "so"}), DESK, ("put", {"text": "\ud800 ☃"})),
    _walk(("put", {"item": "pen"}), ("transition_stage", {"target_stage": "shop"}), ("alone", {"number": 3})),
    _walk(("put", {}), DESK, ("terminate_session", {}), ("put", {"item": "pen"}), ("unknown", {})),
]
"""Two stages with tasks of one name, large values, calls that fail, and the agent's own tools among them."""

ONCE_APART = [
    pytest.param(
        "loop_hooked",
        {"answers": [ECHO, ECHO]},
        id="a call's id comes again in another step",
    ),
    pytest.param(
        "react_hooked",
        {"answers": ["I think", ECHO, {"error": "CONTENT_FILTERED"}], "recover": "more"},
        id="on_error returns all messages of the state",
    ),
    pytest.param("staged_hooked", {"answers": WALKED}, id="a walk to the end"),
    pytest.param(
        "loop_hooked",
        {"answers": [ECHO, {"error": "CONTENT_FILTERED"}], "recover": "fresh"},
        id="on_error returns a turn of its own",
    ),
    pytest.param("plan_hooked", {"answers": [planned("a")], "stop": 1}, id="it stops once there is a plan"),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("name", "given_script"), ONCE_APART)
async def test_what_was_not_the_same(stack: Stack, worker: None, name: str, given_script: dict[str, Any]) -> None:
    """Differences that the tests above have found."""
    await check(stack, (name, json.dumps({"stop": 0, "note": True, "recover": "", **given_script})))
