"""Agents whose strategies raise, as a bug in a strategy would."""

from __future__ import annotations

import os
import time
from typing import Any

from perdure import App, agent
from perdure.uap.spec import StrategySpec
from perdure.uap.strategy import StrategyContext
from perdure.upp.providers.scripted import scripted
from perdure.upp.turn import Turn
from perdure.workflows import strategies


class _Broken:
    """Runs one step, then raises."""

    name = "broken"

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    async def execute(self, context: StrategyContext) -> Turn:
        await context.effects.start_step()
        await context.effects.generate()
        raise self._error("a bug")


class _Blocking:
    """Blocks the workflow's thread, as a strategy may that calls something slow; cured where PERDURE_TEST_CURED is set."""

    name = "blocking"

    async def execute(self, context: StrategyContext) -> Turn:
        if "PERDURE_TEST_CURED" not in os.environ:
            time.sleep(5)  # noqa: ASYNC251 -- the fault under test
        while not context.state.done:
            await context.effects.start_step()
            await context.effects.generate()
            await context.effects.end_step(last=True)
        return context.effects.turn()


def _register(name: str, error: type[Exception]) -> Any:
    strategies.STRATEGIES[name] = lambda: _Broken(error)
    return agent(name=name, model=scripted(["hello"]), execution=StrategySpec(name=name))


strategies.STRATEGIES["blocking"] = _Blocking

app = App(
    agents=[
        agent(name="blocking", model=scripted(["hello"]), execution=StrategySpec(name="blocking")),
        _register("broken_key", KeyError),
        _register("broken_type", TypeError),
        _register("broken_base", RuntimeError),
    ]
)
