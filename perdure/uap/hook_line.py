"""Hooks as a strategy of the user's own calls them: at once, in order, awaited or not."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

from perdure.errors import StrategyError
from perdure.uap.hooks import Hook, HookCall, HookOutcome, StepResult, state_copy
from perdure.uap.own_effects import OwnEffects
from perdure.uap.state import ExecutionState
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn

T = TypeVar("T")


class Called(Generic[T]):
    """A hook that was called; await it for what it returned. If nobody does, what it raises is raised later on."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        """Stand for a task."""
        self.task = task
        self.seen = False

    def __await__(self) -> Generator[Any, None, T]:
        self.seen = True
        return self.task.__await__()

    def __bool__(self) -> bool:
        raise StrategyError("what a hook returns must be awaited: `await context.strategy.stop_condition(state)`")


class HookLine:
    """Carries calls out one after another. Whoever goes on first sees to it that none is left."""

    def __init__(self) -> None:
        self._last: Called[Any] | None = None

    def put(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Called[T]:
        """Carry `work` out once those before it are over; it starts at once."""
        before = self._last

        async def in_turn() -> T:
            if before is not None:
                await _over(before)
            return await work()

        self._last = made = Called(asyncio.create_task(in_turn()))
        return made

    async def settle(self) -> None:
        """Wait until all are over.

        Raises:
            BaseException: what one raised that nobody awaited.
        """
        last, self._last = self._last, None
        if last is not None:
            await _over(last)

    async def leave(self) -> None:
        """Wait until all are over, whatever they raise: something else has ended the run."""
        last, self._last = self._last, None
        if last is not None:
            await asyncio.gather(last.task, return_exceptions=True)


async def _over(called: Called[Any]) -> None:
    seen, called.seen = called.seen, True
    if seen:
        await asyncio.gather(called.task, return_exceptions=True)
    else:
        await called.task


class StrategyHooks:
    """`context.strategy`: the agent's hooks, all there; one that the agent lacks does nothing.

    Each call starts at once and may be awaited. Calls are carried out in their order, and before the next model call. A
    hook gets a copy of the state as it is at the call, with the metadata that the hooks before it left; what it leaves in
    the metadata is written into the state that was given. `on_step_start` also begins the step, and `on_step_end` ends it: a checkpoint is taken.

    Source: UAP-1.0 sections 5.5 and 11, AgentStrategy.
    """

    def __init__(self, effects: OwnEffects, line: HookLine, state: ExecutionState) -> None:
        """Call the hooks of the agent that `effects` runs; `state` is the execution's."""
        self._effects = effects
        self._line = line
        self._state = state

    def on_step_start(self, step: int, state: ExecutionState) -> Called[None]:
        """Begin a step. Raises, when awaited, LimitExceeded at the run's limit."""
        if isinstance(step, bool) or step < 1:
            raise StrategyError(f"on_step_start({step!r}): steps are whole numbers from 1")
        state.step = step
        call = HookCall(Hook.STEP_START, step, state_copy(state))

        async def work() -> None:
            await self._effects.open_step(step)
            await self._call(call, state)

        return self._line.put(work)

    def on_reason(self, step: int, reasoning: str) -> Called[None]:
        """Reasoning is there."""
        return self._plain(HookCall(Hook.REASON, step, state_copy(self._state), reasoning=reasoning))

    def on_act(self, step: int, actions: Sequence[ToolCall]) -> Called[None]:
        """Tools are about to be run."""
        return self._plain(HookCall(Hook.ACT, step, state_copy(self._state), actions=list(actions)))

    def on_observe(self, step: int, observations: Sequence[ToolResult]) -> Called[None]:
        """Their results are there."""
        return self._plain(HookCall(Hook.OBSERVE, step, state_copy(self._state), observations=list(observations)))

    def on_step_end(self, step: int, result: StepResult) -> Called[None]:
        """End a step."""
        call = HookCall(Hook.STEP_END, step, state_copy(result.state), turn=result.turn)

        async def work() -> None:
            await self._call(call, result.state)
            await self._effects.close_step(step, result.state)

        return self._line.put(work)

    def stop_condition(self, state: ExecutionState) -> Called[bool]:
        """Whether the agent's stop condition says so; False if it has none. Must be awaited."""
        call = HookCall(Hook.STOP, state.step, state_copy(state))

        async def work() -> bool:
            return (await self._call(call, state)).stop

        return self._line.put(work)

    def on_complete(self, turn: Turn) -> Called[None]:
        """Does nothing: the host calls the hook once, with the turn that the strategy returns."""
        return self._line.put(_nothing)

    def on_error(self, error: Exception, state: ExecutionState) -> Called[None]:
        """Does nothing: the host calls the hook once, with what the strategy raises."""
        return self._line.put(_nothing)

    def _plain(self, call: HookCall) -> Called[None]:
        async def work() -> None:
            await self._call(call, self._state)

        return self._line.put(work)

    async def _call(self, call: HookCall, state: ExecutionState) -> HookOutcome:
        if not self._effects.has_hook(call.hook):
            return HookOutcome()
        call.state.metadata = copy.deepcopy(state.metadata)  # with what the hooks before it left
        outcome = await self._effects.call_own_hook(call)
        if outcome.metadata != state.metadata:
            state.metadata = outcome.metadata
        return outcome


async def _nothing() -> None:
    """What is left to do for hooks that the host calls."""
