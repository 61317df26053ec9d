"""The turn of a run or of one of its steps, out of what the run's state holds."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.uap.scaffold import PROMPT, scaffold_of
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage


def run_turn(messages: Sequence[Message], executions: Sequence[ToolExecution], usage: TokenUsage, cycles: int) -> Turn:
    """The turn without the strategy's own messages.

    Where there is no other answer, as when a run is stopped after its planning, the strategy's own stand in for one.

    Raises:
        UPPError: INVALID_RESPONSE if there is no answer at all.
    """
    spoken = [message for message in messages if not scaffold_of(message)]
    if not any(isinstance(message, AssistantMessage) for message in spoken):
        spoken = [message for message in messages if scaffold_of(message) != PROMPT]
    return Turn(spoken, executions, usage, cycles)
