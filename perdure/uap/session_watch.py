"""How a session sees the steps of its runs: through the hook at their end, so those of any strategy, in any host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from perdure.errors import ServerError
from perdure.uap import host
from perdure.uap.active_session import SessionRun, in_run
from perdure.uap.agent import Agent
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall, StepResult, state_copy
from perdure.uap.options import RunOptions
from perdure.uap.run_turn import spoken
from perdure.uap.session_checkpoints import Checkpoint, same_messages, take_checkpoint
from perdure.uap.session_options import Interval
from perdure.uap.state import ExecutionState
from perdure.upp.messages import Message
from perdure.upp.turn import Turn

Keep: TypeAlias = Callable[[Checkpoint], Awaitable[None]]


@runtime_checkable
class ResumingHost(host.Host, Protocol):
    """A host that can go on from a state, and whose runs tell of their steps in this process."""

    async def resume(
        self, agent: Agent, history: Sequence[Message], state: ExecutionState, options: RunOptions
    ) -> Turn:
        """Take a run up after `state.step` and return its whole turn.

        Args:
            agent: whose run it is.
            history: the messages before the run, oldest first.
            state: as it was at a step's end, its messages beginning with the input; the host may change it.
            options: for what is left of the run.
        """
        ...


def resuming_host() -> ResumingHost:
    """The host of a session that lives in this process: the one that serves here, else the one for all that is not connected.

    So a session that was begun outside `async with connect():` stays in process inside.

    Raises:
        ServerError: neither can do it.
    """
    for found in (host.current(), host.default()):
        if isinstance(found, ResumingHost):
            return found
    raise ServerError("no host here can go on with a run; import session from perdure, not from perdure.uap")


@contextmanager
def running_in(run: SessionRun, here: ResumingHost) -> Generator[None]:
    """Make everything that starts inside a part of the run, and agents that it runs the host's."""
    with in_run(run), host.connected(here):
        yield


def watched(run: SessionRun, interval: Interval, keep: Keep) -> Agent:
    """The session's agent, that after its own `on_step_end` hook leaves the state in the run, and in a checkpoint.

    Args:
        run: whose state is kept.
        interval: with "turn" no checkpoint is taken here.
        keep: takes each checkpoint.
    """
    agent = run.session.agent
    own = agent.strategy

    async def on_step_end(step: int, result: StepResult) -> None:
        if own.on_step_end is not None:
            call = HookCall(Hook.STEP_END, step, result.state, turn=result.turn)
            result.state.metadata = (await call_hook(own, call)).metadata
        run.state = state_copy(result.state)
        if interval == "step":
            await keep(take_checkpoint(run, state_copy(result.state)))

    return replace(agent, strategy=replace(own, on_step_end=on_step_end))


def turn_checkpoint(run: SessionRun, turn: Turn) -> Checkpoint:
    """The checkpoint after a turn. Where another turn took the place of the run's own, its messages are the state's."""
    state = ExecutionState(usage=turn.usage, cycles=turn.cycles) if run.state is None else state_copy(run.state)
    if not same_messages(spoken(state.messages), turn.messages):
        state.messages = list(turn.messages)
        state.tool_executions = list(turn.tool_executions)
    state.done = True
    return take_checkpoint(run, state)
