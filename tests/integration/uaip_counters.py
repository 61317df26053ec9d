"""Workflows in which what two clients do at once would show: a count, and a fork that can be taken only once."""

from __future__ import annotations

import asyncio

from perdure import App
from perdure.uaip import State, stage, task, workflow


@stage
class Counting:
    """Count."""

    @task(effect="idempotent")
    async def increment(self, state: State) -> int:
        """One more, read and written with a pause between."""
        count = state.get("count", 0) + 1
        await asyncio.sleep(0)
        state.set("count", count)
        return count


@stage
class Counted:
    """Stop."""

    @task(effect="none")
    def total(self, state: State) -> int:
        """What was counted."""
        return state.get("count", 0)


@workflow(name="counter")
class Counter:
    """Counts, until somebody says that it is enough."""

    counting = Counting
    counted = Counted
    transitions = {counting: [counted]}


@stage
class Fork:
    """Choose; there is no way back."""


@stage
class Left:
    """One of the ways."""


@stage
class Right:
    """The other one."""


@workflow(name="fork")
class ForkedRoad:
    """Goes one way."""

    fork = Fork
    left = Left
    right = Right
    transitions = {fork: [left, right]}


app = App(workflows=[Counter, ForkedRoad])
