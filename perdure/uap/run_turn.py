"""The turn of a run or of one of its steps, out of what the run's state holds."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.uap.scaffold import PROMPT, scaffold_of
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage


def spoken(messages: Sequence[Message]) -> list[Message]:
    """Those messages that are part of the conversation, as in a turn.

    That is all but the strategy's own; its answers stand in where there is no other, as after planning.
    """
    said = [message for message in messages if not scaffold_of(message)]
    if any(isinstance(message, AssistantMessage) for message in said):
        return said
    return [message for message in messages if scaffold_of(message) != PROMPT]


def run_turn(messages: Sequence[Message], executions: Sequence[ToolExecution], usage: TokenUsage, cycles: int) -> Turn:
    """The turn without the strategy's own messages; see `spoken`.

    Raises:
        UPPError: INVALID_RESPONSE if there is no answer at all.
    """
    return Turn(spoken(messages), executions, usage, cycles)
