"""A session's run as a stream: its host's events, and the checkpoints that the session takes between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEventType, is_aborted, of_step
from perdure.uap.scaffold import NAMESPACE
from perdure.uap.session_checkpoints import RUN_ID, Checkpoint
from perdure.upp.event_flow import Flow
from perdure.upp.turn import Turn


class CheckpointEvents:
    """Tells of each checkpoint behind the `step_end` of its step, as durable runs do. Source: UAP-1.0 section 12.2."""

    def __init__(self, agent_id: str) -> None:
        """Tell of the checkpoints of an agent's run."""
        self._agent_id = agent_id
        self._untold: dict[int, Checkpoint] = {}

    def took(self, checkpoint: Checkpoint) -> None:
        """Note a checkpoint that was taken at its step's end."""
        self._untold[checkpoint.step] = checkpoint

    def behind(self, event: AgentStreamEvent) -> list[AgentStreamEvent]:
        """An event of the run, and behind it what is to be told then."""
        uap = event.uap
        if uap is None or event.path or uap.type is not UAPEventType.STEP_END or uap.step not in self._untold:
            return [event]
        return [event, self.of(self._untold.pop(uap.step))]

    def of(self, checkpoint: Checkpoint) -> AgentStreamEvent:
        """The event of a checkpoint."""
        run, data = str(checkpoint.metadata[RUN_ID]), {"checkpointId": checkpoint.id}
        return of_step(UAPEventType.CHECKPOINT, run, checkpoint.step, self._agent_id, {**data})


async def relay(
    running: AgentStreamResult,
    flow: Flow[AgentStreamEvent],
    behind: Callable[[AgentStreamEvent], Sequence[AgentStreamEvent]],
) -> Turn:
    """Hand a stream's events on and return its turn; if the reader leaves, that is the partial one.

    Args:
        running: the stream; nobody else reads it.
        flow: to whoever reads.
        behind: what an event is handed on as.
    """
    try:
        async for event in running:
            await flow.send(behind(event))
    except asyncio.CancelledError:
        running.abort()
        if not is_aborted():
            raise
    return await running


def is_partial(turn: Turn) -> bool:
    """Whether a turn is that of a run that was aborted."""
    return (turn.response.metadata or {}).get(NAMESPACE, {}).get("aborted") is True


def says_something(turn: Turn) -> bool:
    """Whether there is anything in its answer: text, or tool calls."""
    return bool(turn.response.tool_calls or turn.response.text.strip())
