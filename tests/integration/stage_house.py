"""A workflow for tests of the stage workflow: a task of every kind that matters, and what it takes to drive a session.

Tasks write into the ledger, under the session's id, before and after their effect. Seconds may be `HELD`.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure import App
from perdure.uaip import Retry, State, TaskContext, Workflow, stage, task, workflow
from tests.integration.agents import HELD, held_until_released, write_ledger


async def effect(context: TaskContext, task: str, seconds: float = 0.0) -> None:
    note: dict[str, Any] = {"task": task, "key": context.idempotency_key, "attempt": context.attempt}
    write_ledger("begun", context.session_id, **note)
    await (held_until_released(context.session_id) if seconds == HELD else asyncio.sleep(seconds))
    write_ledger("done", context.session_id, **note)


@stage
class Hall:
    """Where one comes in."""

    @task(effect="none")
    async def look(self, context: TaskContext, seconds: float = 0.0) -> str:
        """Look around."""
        await effect(context, "look", seconds)
        return "a door"

    @task(effect="idempotent")
    async def add(self, state: State, context: TaskContext, by: int = 1, seconds: float = 0.0) -> int:
        """Count on."""
        await effect(context, "add", seconds)
        state.set("count", state.get("count", 0) + by)
        return state.get("count")

    @task
    async def knock(self, state: State, context: TaskContext, seconds: float = 0.0) -> str:
        """At most once."""
        await effect(context, "knock", seconds)
        state.set("knocked", True)
        return "knocked"

    @task(effect="once")
    async def ring(self, state: State, context: TaskContext, seconds: float = 0.0) -> str:
        """Never twice."""
        await effect(context, "ring", seconds)
        state.set("rung", True)
        return "rung"

    @task
    async def stumble(self, state: State) -> None:
        """Write, and raise."""
        state.set("fallen", True)
        raise RuntimeError("ouch")

    @task(effect="none", retry=Retry(3, wait=timedelta(seconds=0.05)))
    async def push(self, state: State, context: TaskContext, gives_way: int = 3) -> int:
        """Give way at the third try."""
        state.set(f"push.{context.attempt}", True)
        await effect(context, "push")
        if context.attempt < gives_way:
            raise RuntimeError(f"stuck at {context.attempt}")
        return context.attempt

    @task(effect="none", timeout=0.3)
    async def wait(self) -> None:
        """Take longer than it may."""
        await asyncio.sleep(30)

    @task(effect="idempotent", approval="human")
    async def open_door(self, state: State, context: TaskContext, how: str = "softly") -> str:
        """Ask a person."""
        await effect(context, "open_door")
        state.set("door", how)
        return how

    @task(effect="none", approval="human", approval_timeout=timedelta(seconds=0.5))
    async def hurry(self, context: TaskContext) -> str:
        """Ask a person, who has half a second."""
        await effect(context, "hurry")
        return "in time"


@stage(prerequisites=["count"])
class Room:
    """Behind the door."""

    @task(effect="none")
    async def rest(self, state: State) -> int:
        """What was counted."""
        return state.get("count")


@workflow
class House:
    """A hall and a room."""

    hall = Hall
    room = Room
    transitions = {hall: [room], room: [hall]}


TENT_S = 3600


@stage
class Field:
    """For an hour."""

    @task(effect="none")
    async def look(self) -> str:
        """Look around."""
        return "grass"


@workflow(ttl=TENT_S)
class Tent:
    """Stands for an hour."""

    field = Field


house: Workflow = House
app = App(workflows=[House, Tent])


@workflow(name="house")
class Cottage:
    """The house as a later version has it: without tasks in the hall but one."""

    @stage
    class Hall:
        """Where one comes in."""

        @task(effect="none")
        async def look(self) -> str:
            """Look around."""
            return "a wall"

    transitions: dict[type, list[type]] = {}


cottage = App(workflows=[Cottage])
