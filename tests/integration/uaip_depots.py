"""A depot as it is deployed first, and as it is deployed later: a stage, an edge and a task are gone, another task takes more."""

from __future__ import annotations

from perdure import App
from perdure.uaip import State, TaskContext, Workflow, stage, task, workflow
from tests.integration.uaip_shops import effect


@stage
class Receive:
    """Take something in."""

    @task
    def scan(self, state: State, code: int) -> int:
        """Note its number."""
        state.set("code", code)
        return code


@stage
class Sort:
    """Find its place."""

    @task(effect="idempotent")
    async def weigh(self, state: State, context: TaskContext, seconds: float = 0.0) -> int:
        """Put it on the scales, which are taken away later."""
        await effect("idempotent", context, seconds, task="weigh")
        state.set("weight", 7)
        return 7


@stage(prerequisites=["weight"])
class Ship:
    """Send it off."""


@stage
class Archive:
    """Keep its papers; later nobody does."""

    @task(effect="none")
    def file(self, state: State) -> str:
        """What is kept."""
        return f"{state.get('code')}: {state.get('weight')}"


@workflow(name="depot")
class First:
    """Receive, sort, ship."""

    receive = Receive
    sort = Sort
    ship = Ship
    archive = Archive
    transitions = {receive: [sort], sort: [receive, ship], ship: [archive]}


@stage
class ReceiveByName:
    """Take something in, from somewhere."""

    @task
    def scan(self, state: State, code: int | str, place: str = "here") -> str:
        """Note its number, or its name, and where it is from."""
        state.set("code", code)
        return f"{code} {place}"


@stage
class SortByEye:
    """Find its place; nothing is weighed."""


@stage
class Load:
    """Send it off."""


@workflow(name="depot")
class Second:
    """Receive, sort, load."""

    receive = ReceiveByName
    sort = SortByEye
    load = Load
    transitions = {receive: [sort], sort: [load]}


keeping = Workflow(Second.definition, {**First.tasks, **Second.tasks})
"""The second, with the functions that only sessions of the first still call."""

before = App(workflows=[First])
after = App(workflows=[Second])
after_keeping = App(workflows=[keeping])
