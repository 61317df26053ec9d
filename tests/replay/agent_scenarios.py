"""Runs of agents with hooks, middleware, sub-agents and strategies of the user's own."""

from __future__ import annotations

import json
from typing import Any

from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.waits import open_waits
from perdure.upp.messages import UserMessage
from tests.integration.delegating_agents import hand, told
from tests.integration.stack import Stack, eventually
from tests.integration.sub_agents import ask
from tests.integration.test_kills import finish
from tests.integration.test_sub_agents import children_of, lead
from tests.replay.playing import RECORDER, executions, finish_all, until_event, worker

HOOKED = "tests.integration.hooked_agents:app"
AROUND = "tests.integration.middleware_agents:app"
DELEGATING = "tests.integration.delegating_agents:app"
SUB_AGENTS = "tests.integration.sub_agents:app"
CUSTOM = "tests.integration.custom_strategies:app"
STAGED = "tests.integration.staged_agents:app"


async def reasons_with_hooks(stack: Stack, sessions: Sessions) -> RunHandle:
    """React with every hook; the stop condition ends it."""
    async with worker(stack, HOOKED):
        spec_ = {"name": RECORDER, "rounds": 3, "stop": 2}
        handle = await sessions.submit("thinker", json.dumps(spec_))
        await finish_all(sessions, handle)
    return handle


async def recovers_by_hook(stack: Stack, sessions: Sessions) -> RunHandle:
    """on_error returns a turn."""
    async with worker(stack, HOOKED):
        spec_ = {"name": RECORDER, "rounds": 3, "fail": 2, "recover": True}
        handle = await sessions.submit("thinker", json.dumps(spec_))
        await finish_all(sessions, handle)
    return handle


async def plans(stack: Stack, sessions: Sessions) -> RunHandle:
    """A plan of two steps, the first with two rounds of tools."""
    async with worker(stack, HOOKED):
        handle = await sessions.submit("planner", "Go.")
        await finish_all(sessions, handle)
    return handle


async def reasons_over_executions(stack: Stack, sessions: Sessions) -> RunHandle:
    """React with hooks, continued as new."""
    async with worker(stack, HOOKED, PERDURE_CONTINUE_AS_NEW_EVENTS="120"):
        handle = await sessions.submit("thinker", json.dumps({"name": RECORDER, "rounds": 4}))
        await finish_all(sessions, handle)
    return handle


async def debates(stack: Stack, sessions: Sessions) -> RunHandle:
    """A strategy of a user's own: model calls at once, hooks, messages of its own, a turn of its own; two runs."""
    async with worker(stack, CUSTOM):
        handle = await sessions.submit("debate", json.dumps({"name": RECORDER}))
        await finish(sessions, handle)
        second = await sessions.submit("debate", json.dumps({"name": RECORDER}), session=handle.session)
        await finish_all(sessions, second)
    return handle


async def own_steps(stack: Stack, sessions: Sessions) -> RunHandle:
    """A strategy of a user's own with tools and a stop condition."""
    async with worker(stack, CUSTOM):
        handle = await sessions.submit("steps", json.dumps({"name": RECORDER}))
        await finish_all(sessions, handle)
    return handle


async def asks_sub_agents(stack: Stack, sessions: Sessions) -> RunHandle:
    """Two sub-agents at once, one of which asks another; one call has no task."""
    async with worker(stack, SUB_AGENTS):
        inner = ask("explorer", RECORDER, [ask("digger", RECORDER, "gold")], "found")
        wrong: dict[str, Any] = {"tool": "scout", "arguments": {}}
        handle = await lead(sessions, RECORDER, [inner, ask("scout", RECORDER, "seen"), wrong], "done")
        await finish_all(sessions, handle)
    return handle


async def hands_tasks_on(stack: Stack, sessions: Sessions) -> RunHandle:
    """Tasks for two agents at once, one of them long, and one for nobody; then an input whose thread is another."""
    async with worker(stack, DELEGATING):
        calls = [hand("researcher", told(RECORDER, "found")), hand("fine_viewer", "word " * 600), hand("nobody", "x")]
        handle = await sessions.submit("lead", told(RECORDER, calls, "done"))
        await finish_all(sessions, handle)
        second = await sessions.submit(
            "lead", told(RECORDER, "done again"), session=handle.session, thread=[UserMessage("else")]
        )
        await finish_all(sessions, second)
    return handle


async def is_a_sub_agent(stack: Stack, sessions: Sessions) -> RunHandle:
    """The session of a sub-agent that has one itself."""
    return await _child_of(sessions, await asks_sub_agents(stack, sessions))


async def cancelled_with_sub_agents(stack: Stack, sessions: Sessions) -> RunHandle:
    """Paused, resumed and cancelled while a sub-agent's model is asked."""
    async with worker(stack, SUB_AGENTS):
        handle = await lead(sessions, RECORDER, [ask("explorer", RECORDER, "never", latency=30)], "never")
        await until_event(handle, "child.started")
        assert (await sessions.pause(handle.session)).state == "paused"
        assert (await sessions.resume(handle.session)).state == "resumed"
        assert (await sessions.cancel(handle.session)).state == "cancelled"
        await executions(sessions, handle.session)  # closed by a worker that serves these agents
    return handle


async def cancelled_by_its_parent(stack: Stack, sessions: Sessions) -> RunHandle:
    """The session of a sub-agent whose parent is paused, resumed and cancelled."""
    return await _child_of(sessions, await cancelled_with_sub_agents(stack, sessions))


async def _child_of(sessions: Sessions, handle: RunHandle) -> RunHandle:
    children = await children_of(sessions, handle.session)
    return await sessions.run(next(str(child["run"]) for child in children if child["tool"] == "explorer"))


async def walks_a_workflow(stack: Stack, sessions: Sessions) -> RunHandle:
    """An agent walks stages: calls in turn beside one of its own tools, a refusal, a sub-agent, an approval; two executions."""
    moved: list[Any] = [
        ["transition_stage", {"target_stage": "cart"}],
        ["look", {}],
        ["add", {"name": RECORDER}],
        ["pay", {}],
    ]
    more = [[["add", {"name": RECORDER}], ["add", {"name": RECORDER}]]] * 4
    desk = [["ask", {"task": "pens"}], ["transition_stage", {"target_stage": "desk"}], ["pay", {"name": RECORDER}]]
    said = json.dumps(
        {"name": RECORDER, "answers": [moved, *more, desk, [["terminate_session", {}], ["look", {}]], "?"]}
    )
    async with worker(stack, STAGED, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await sessions.submit("buyer", said)
        (wait,) = await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        await sessions.answer(wait.id, {"decision": "approve"}, by=RECORDER)
        assert (await handle.result()).response.text == "look"
        await finish_all(sessions, handle)
        await executions(sessions, handle.session)  # closed by a worker that serves these agents
    return handle


async def surrounded_over_executions(stack: Stack, sessions: Sessions) -> RunHandle:
    """Middleware changes the input and the answer and is told of everything, over three executions."""
    said = json.dumps({"name": RECORDER, "rounds": 8, "who": "Alice", "text": "Bob"})
    async with worker(stack, AROUND, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await sessions.submit("guarded", said)
        assert (await handle.result()).response.text == "B."
        await finish_all(sessions, handle)
    return handle


async def ended_by_middleware(stack: Stack, sessions: Sessions) -> RunHandle:
    """A middleware raises when it is told of a step; the agent's own error hook, then another middleware, hear of it."""
    said = json.dumps({"name": RECORDER, "rounds": 2, "raises": "b.observation", "recovers": "a"})
    async with worker(stack, AROUND):
        handle = await sessions.submit("traced", said)
        assert (await handle.result()).response.text == "a recovered"
        await finish_all(sessions, handle)
    return handle
