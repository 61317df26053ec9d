"""Histories of stage sessions."""

from __future__ import annotations

from typing import Any

from perdure.runtime.sessions import Sessions
from perdure.uaip.action import Action, ActionKind
from tests.integration import stage_crew
from tests.integration.stack import Stack
from tests.integration.stage_visits import APP, Visit, calling
from tests.replay.playing import RECORDER, worker

CREW = "tests.integration.stage_crew:app"
UNREADABLE: list[Any] = [1, "text", [1], {"id": 7}, {"id": "x" * 300}, {"reason": []}]


async def stage_actions(stack: Stack, sessions: Sessions) -> Visit:
    """Every kind of action, handed in at once; the last one ends the session."""
    async with worker(stack, APP):
        visit = await Visit.begin(sessions)
        actions = [
            Action(ActionKind.HANDSHAKE),
            Action(ActionKind.STAGE_TRANSITION, "room"),
            calling("add"),
            calling("stumble"),
            Action(ActionKind.STATE_INPUT, updates={"a": 1}),
            Action(ActionKind.STAGE_TRANSITION, "room"),
            calling("rest"),
            Action(ActionKind.TERMINATE_SESSION),
        ]
        rows = [await visit.send(action, wake=action is actions[-1]) for action in actions]
        await visit.settled(rows[-1])
        await visit.executions()
    return visit


async def stage_waits(stack: Stack, sessions: Sessions) -> Visit:
    """A person approves, denies, and does not answer in time."""
    async with worker(stack, APP):
        visit = await Visit.begin(sessions)
        first, second = [await visit.send(calling("open_door")) for _ in range(2)]
        last = await visit.send(calling("hurry"))
        await visit.answer(first, {"approved": True})
        await visit.answer(second, {"approved": False})
        await visit.settled(last)
        await visit.executions()
    return visit


async def stage_controlled(stack: Stack, sessions: Sessions) -> Visit:
    """Paused and resumed while a task runs, and terminated while another one does."""
    async with worker(stack, APP):
        visit = await Visit.begin(sessions)
        first = await visit.send(calling("look", seconds=3.0))
        await visit.send(calling("knock", seconds=60.0))
        await stack.until_entries(visit.id, "begun")
        await visit.signal("pause", {"id": "p"})
        await visit.until_status("paused")
        await visit.signal("resume", {"id": "r"})
        await visit.until_status("open")
        await visit.settled(first)
        await stack.until_entries(visit.id, "begun", 2)
        await visit.signal("terminate", {"id": "t", "reason": RECORDER})
        await visit.executions()
    return visit


async def stage_cancelled(stack: Stack, sessions: Sessions) -> Visit:
    """Temporal's own cancellation, while a person is asked."""
    async with worker(stack, APP):
        visit = await Visit.begin(sessions)
        row = await visit.send(calling("open_door"))
        await visit.until_state(row, "waiting")
        await visit.handle.cancel()
        await visit.executions()
    return visit


async def stage_killed(stack: Stack, sessions: Sessions) -> Visit:
    """A worker dies in a task that may not run twice; a person says that it was done."""
    async with worker(stack, APP) as first:
        visit = await Visit.begin(sessions)
        row = await visit.send(calling("ring", seconds=60.0))
        await stack.until_entries(visit.id, "begun")
        first.kill()
    async with worker(stack, APP):
        await visit.answer(row, {"outcome": "done", "result": "rung"})
        await visit.settled(row)
        await visit.executions()
    return visit


async def stage_over_executions(stack: Stack, sessions: Sessions) -> Visit:
    """More actions than one execution takes."""
    async with worker(stack, APP, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        visit = await Visit.begin(sessions)
        rows = [await visit.send(calling("add"), wake=False) for _ in range(20)]
        await visit.signal("wake")
        await visit.settled(rows[-1])
        await visit.executions()
    return visit


async def stage_garbage(stack: Stack, sessions: Sessions) -> Visit:
    """Whatever can be signalled, on every name."""
    async with worker(stack, APP):
        visit = await Visit.begin(sessions)
        row = await visit.send(calling("look", seconds=2.0))
        await stack.until_entries(visit.id, "begun")
        for name in ("wake", "answer", "pause", "terminate", "nonsense"):
            for value in UNREADABLE:
                await visit.handle.signal(name, value)
        await visit.settled(row)
        await visit.executions()
    return visit


async def stage_agents(stack: Stack, sessions: Sessions) -> Visit:
    """A task that is an agent's run: a child workflow."""
    async with worker(stack, CREW):
        visit = await Visit.begin(sessions, stage_crew.CREW)
        row = await visit.send(stage_crew.give("write", visit.id, "written"))
        await visit.settled(row)
        await visit.executions()
    return visit


async def stage_agents_stopped(stack: Stack, sessions: Sessions) -> Visit:
    """Terminated while the agent is in its tool: its child is cancelled, and waited for."""
    async with worker(stack, CREW):
        visit = await Visit.begin(sessions, stage_crew.CREW)
        row = await visit.send(stage_crew.give("explore", visit.id, stage_crew.note(visit.id, "x", 60.0), "never"))
        await stack.until_entries(visit.id, "tool")
        await visit.signal("terminate", {"id": "t"})
        await visit.settled(row)
        await visit.executions()
    return visit
