"""A strategy of the user's own as the hosts run it: what it is given, and what becomes of what it returns."""

from __future__ import annotations

from typing import Any, cast

from perdure.errors import StrategyError
from perdure.uap.execution import AbortSignal, ExecutionContext, ExecutionStrategy
from perdure.uap.hook_line import HookLine, StrategyHooks
from perdure.uap.llm_facade import StrategyLLM
from perdure.uap.own_effects import OwnEffects
from perdure.uap.strategy import StrategyContext
from perdure.upp.turn import Turn


class CustomStrategy:
    """`Strategy` over one of the user's own."""

    def __init__(self, own: ExecutionStrategy) -> None:
        """Run `own`."""
        self._own = own

    @property
    def name(self) -> str:
        """See `Strategy.name`."""
        return self._own.name

    @property
    def options(self) -> dict[str, Any]:
        """It is found by its source, not built from options."""
        return {}

    async def execute(self, context: StrategyContext) -> Turn:
        """Run it to its end.

        Raises:
            StrategyError: it returned no Turn.
            Exception: what it raised.
        """
        effects = context.own
        if effects is None:
            raise StrategyError(f"strategy {self.name!r} is one of your own; this host runs none")
        line = HookLine()
        state = effects.begun(resumable=is_resumable(self._own))
        signal, llm = AbortSignal(), StrategyLLM(effects, line)
        given = ExecutionContext(
            agent=effects.agent,
            llm=llm,
            input=context.input,
            history=await effects.history(),
            tools=effects.tools,
            strategy=StrategyHooks(effects, line, state),
            signal=signal,
            state=state,
        )
        turn = await effects.guard(self._run(given, effects, line), signal.abort)
        llm.close()
        await effects.keep(turn, state)
        return turn

    async def _run(self, given: ExecutionContext, effects: OwnEffects, line: HookLine) -> Turn:
        try:
            running = self._stream(given, effects) if effects.streamed else self._own.execute(given)
            turn = cast(object, await running)
            await line.settle()
        except BaseException:
            given.llm.close()
            await line.leave()
            raise
        if not isinstance(turn, Turn):
            raise StrategyError(f"strategy {self.name!r} returned a {type(turn).__name__}; it must return a Turn")
        return turn

    async def _stream(self, given: ExecutionContext, effects: OwnEffects) -> Turn:
        stream = self._own.stream(given)
        async for event in stream:
            await effects.tell(event)
        return await stream.turn


def is_resumable(strategy: object) -> bool:
    """Whether a strategy says that it can go on from the state of a step boundary."""
    return bool(cast(object, getattr(strategy, "resumable", False)))
