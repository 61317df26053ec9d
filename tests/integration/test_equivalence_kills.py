"""What a run comes to is the same when its worker dies in the middle, at any of the crash points that the run passes."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from perdure.runtime.session_document import session_document
from perdure.testing.crash import CRASH_POINTS
from perdure.uap.session_key import SessionKey
from tests.conformance.uap_scenarios import planned
from tests.integration.equivalence import AGENTS, NAME, scripts
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_equivalence import (
    WALKED,
    Told,
    document_parts,
    last_session,
    read,
    reproducible,
    run_session_here,
    stream_here,
    told_to_users,
)
from tests.scale import scaled

APP = "tests.integration.equivalence:app"
CLAIMS = ("call_tool.claiming", "call_tool.claimed")
"""Passed only by `once` tools and second attempts."""
PASSED = [
    point
    for point in CRASH_POINTS
    if point.startswith(("begin_run.", "generate.", "deltas.", "call_tool.", "call_user.", "end_run."))
    and point not in CLAIMS
]
"""Passed by any run that calls what these names say."""
PAID_TWICE = ("generate.bought", "generate.storing", "deltas.storing", "deltas.stored")
"""Where an answer is paid and not yet stored."""

BIG: dict[str, Any] = {"id": "same", "tool": "echo", "arguments": {"text": "big ", "times": 1000}}
WRONG: dict[str, Any] = {"id": "same", "tool": "alone", "arguments": "{not json"}
UNKNOWN: dict[str, Any] = {"id": "", "tool": "unknown", "arguments": {}}
LONG = "a text that comes in pieces, \x00 \ud800 " * 40
ROUND: dict[str, Any] = {"text": LONG, "calls": [BIG, WRONG, UNKNOWN]}
BUSY: dict[str, Any] = {"text": LONG, "calls": [{**BIG, "id": ""}, UNKNOWN], "busy": True}
FAIL: dict[str, Any] = {"text": "", "calls": [{"id": "", "tool": "fail", "arguments": {"why": "so"}}]}


def script(*answers: Any, **options: Any) -> str:
    """The text of an input."""
    return json.dumps({"answers": answers, "stop": 0, "note": True, "recover": "", **options})


CASES = [
    ("loop_hooked", script(ROUND, BUSY, LONG), "deltas.stored#2"),
    (
        "react_hooked",
        script(LONG, ROUND, "enough", LONG),
        "call_user.called#8",
    ),
    ("plan_bare", script(planned("a", "b", tool="fail"), ROUND, FAIL, "no", planned("c"), LONG), "call_tool.ran#4"),
    ("staged_hooked", script(*WALKED), "stage_bodies.stored#5"),
]


def points(told: Told) -> list[str]:
    """The crash points that a run passes, with the count of each."""
    counts = {
        "generate": sum(entry["kind"] == "model" for entry in told.ordered),
        "deltas": int(len(json.dumps(told.events)) > 5000 and _has_long_text(told.events or [])),
        "call_tool": sum(event.get("upp", {}).get("type") == "tool_execution_end" for event in told.events or []),
        "call_user": len(hooks(told.ordered)),
    }
    return [f"{point}#{number}" for point in PASSED for number in range(1, counts.get(point.partition(".")[0], 1) + 1)]


def _has_long_text(events: list[Any]) -> bool:
    """Whether an answer takes some time to come."""
    return any(len(event.get("upp", {}).get("delta", {}).get("text", "")) > 400 for event in events)


def hooks(ordered: list[Any]) -> list[Any]:
    """What the hooks were given."""
    return [entry for entry in ordered if entry["kind"].startswith("on_") or entry["kind"] == "stop_condition"]


def once(ordered: list[Any]) -> list[Any]:
    """What the model and the hooks were given, without the repetitions that a death makes."""
    return [entry for entry, _ in itertools.groupby(entry for entry in ordered if entry["kind"] != "busy")]


def bought(ordered: list[Any]) -> Counter[int]:
    """How often each answer was given."""
    return Counter(entry["number"] for entry in ordered if entry["kind"] == "model")


async def killed(stack: Stack, name: str, text: str, point: str) -> Told:
    """Stream a run whose worker dies at a crash point, and is followed by another."""
    before = len(stack.entries(NAME))
    with tempfile.TemporaryDirectory() as folder:
        mark = str(Path(folder) / "crashed")
        first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=mark).wait_ready()
        then = None
        try:
            async with stack.connect() as sessions, asyncio.timeout(200):
                reading = asyncio.create_task(read(AGENTS[name].stream(text)))
                await asyncio.to_thread(first.wait_dead)
                then = WorkerProcess(stack, APP).wait_ready()
                came, events = await reading
                ident = await last_session(sessions, name)
                document = await session_document(sessions.database, SessionKey(sessions.tenant, ident))
        finally:
            first.kill()
            if then is not None:
                then.kill()
    await check_session(stack, ident)
    states, thread = document_parts(document)
    return Told(came, *told_to_users(stack.entries(NAME)[before:]), events, states, thread)


async def check(stack: Stack, name: str, text: str, point: str) -> None:
    """All that a death may change is how often a hook, a tool or the model was called."""
    streamed, kept = await stream_here(name, text), await run_session_here(name, text)
    told = await killed(stack, name, text, point)
    assert told.outcome == streamed.outcome
    assert told.events == streamed.events
    assert told.states == kept.states
    assert told.thread == kept.thread
    assert once(told.ordered) == once(streamed.ordered)
    assert len(hooks(told.ordered)) - len(hooks(streamed.ordered)) in (0, 1)
    assert {repr(entry) for entry in told.tools} == {repr(entry) for entry in streamed.tools}
    again = bought(told.ordered) - bought(streamed.ordered)
    assert again.total() <= (1 if point.partition("#")[0] in PAID_TWICE else 0)


@pytest.mark.parametrize(("name", "text", "point"), CASES, ids=[point for _, _, point in CASES])
async def test_a_death_changes_nothing_that_counts(stack: Stack, name: str, text: str, point: str) -> None:
    """Of a script with large, repeated, wrong and failing calls, in each strategy."""
    await check(stack, name, text, point)


@pytest.mark.asyncio(loop_scope="session")
@given(script=scripts(), place=st.integers(0, 10_000))
@reproducible(max_examples=scaled(20), phases=[Phase.generate])
async def test_nor_does_one_anywhere_in_any_script(stack: Stack, script: tuple[str, str], place: int) -> None:
    passed = points(await stream_here(*script))
    await check(stack, *script, passed[place % len(passed)])
