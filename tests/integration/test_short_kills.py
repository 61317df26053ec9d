"""SIGKILL of a worker amid short calls: the workflow task is lost with all that it had done, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.store.waits import open_waits
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import EFFECTS, finish, settle_waits, spec
from tests.integration.test_short import APP

AGENTS = ["worker", "halfway"]
"""One whose model is short, too, and one whose model calls are regular activities: both call tools with their answers."""


def started(stack: Stack, **environment: str) -> WorkerProcess:
    return WorkerProcess(stack, APP, **environment).wait_ready()


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("point", ["call_tool.running", "call_tool.ran", "call_tool.storing", "call_tool.stored"])
async def test_effect_classes_decide_after_a_crash(
    stack: Stack, tmp_path: Path, point: str, effect: str, agent: str
) -> None:
    """As of regular activities, but that an `at_most_once` call is marked before it runs: then its outcome is unknown."""
    await _check_what_a_crash_leaves(stack, tmp_path, point, effect, agent)


@pytest.mark.parametrize("effect", ["at_most_once", "once"])
@pytest.mark.parametrize("point", ["call_tool.running", "call_tool.ran"])
async def test_a_call_that_is_made_apart_marks_itself(stack: Stack, tmp_path: Path, point: str, effect: str) -> None:
    """Of a local activity nobody counts the attempts of other processes."""
    await _check_what_a_crash_leaves(stack, tmp_path, point, effect, "apart")


async def _check_what_a_crash_leaves(stack: Stack, tmp_path: Path, point: str, effect: str, agent: str) -> None:
    values = spec(steps=1, calls=1, tool=effect)
    first = started(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c"))
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, json.dumps(values))
        async with first.replaced_when_dead():
            if effect == "once" and point != "call_tool.stored":
                await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
                await settle_waits(sessions, handle.session, {"outcome": "happened", "result": "seen by a person"})
            assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    ran = len(stack.entries(values["name"], "tool"))
    before = 0 if point == "call_tool.running" else 1
    again = effect in ("none", "idempotent") and point != "call_tool.stored"
    assert ran == before + (1 if again else 0)
    text = json.dumps(facts.messages[2].message.to_json()["results"])
    unknown = point != "call_tool.stored" and effect == "at_most_once"
    assert ("outcome of this call is not known" in text) == unknown
    assert ("seen by a person" in text) == (point != "call_tool.stored" and effect == "once")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "point", ["generate.begun", "generate.bought", "generate.storing", "generate.stored", "generate.reporting"]
)
async def test_a_stored_answer_is_not_bought_again(stack: Stack, tmp_path: Path, point: str, agent: str) -> None:
    """The workflow task of the worker that died is lost, and with it all that it had done: what is stored is found."""
    values = spec(steps=2, calls=1, tool="none")
    first = started(stack, PERDURE_CRASH_AT=f"{point}#2", PERDURE_CRASH_ONCE=str(tmp_path / "c"))
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, json.dumps(values))
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    assert len(facts.messages) == 6
    bought = [entry["number"] for entry in stack.entries(values["name"], "model")]
    again = point in ("generate.bought", "generate.storing")
    assert sorted(bought) == ([0, 1, 1, 2] if again else [0, 1, 2])
    if point == "generate.reporting":  # the results of the calls that were made ahead are stored, too
        assert len(stack.entries(values["name"], "tool")) in (2, 3)


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_call_that_was_about_to_be_made_may_have_been_made(stack: Stack, tmp_path: Path, agent: str) -> None:
    """The row has said so since the answer was stored: nobody can know that the worker died a moment before."""
    values = spec(steps=1, calls=1, tool="at_most_once")
    first = started(stack, PERDURE_CRASH_AT="generate.stored", PERDURE_CRASH_ONCE=str(tmp_path / "c"))
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, json.dumps(values))
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    assert stack.entries(values["name"], "tool") == []
    assert "outcome of this call is not known" in json.dumps(facts.messages[2].message.to_json()["results"])


@pytest.mark.parametrize("agent", AGENTS)
async def test_what_was_called_ahead_is_not_called_again(stack: Stack, tmp_path: Path, agent: str) -> None:
    """A worker dies with the results of a whole batch stored and told to nobody: whoever takes over finds each of them."""
    values = spec(steps=2, calls=3, tool="at_most_once")
    first = started(stack, PERDURE_CRASH_AT="generate.reporting#2", PERDURE_CRASH_ONCE=str(tmp_path / "c"))
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, json.dumps(values))
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    assert len(stack.entries(values["name"], "tool")) == 6
    assert "is not known" not in json.dumps([item.message.to_json() for item in facts.messages])
