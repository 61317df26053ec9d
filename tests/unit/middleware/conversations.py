"""Conversations for tests: exchanges with and without tools, as runs leave them in a thread."""

from __future__ import annotations

from hypothesis import strategies as st

from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult


def exchange(name: str, rounds: int = 0, *, width: int = 1) -> list[Message]:
    """What the user says, rounds of tool calls with their results, and the answer; texts begin with the name."""
    made: list[Message] = [UserMessage(f"{name} asks")]
    for number in range(rounds):
        ids = [f"{name}-{number}-{place}" for place in range(width)]
        made.append(AssistantMessage(f"{name} calls", [ToolCall(id_, "look", {"word": id_}) for id_ in ids]))
        made.append(ToolResultMessage([ToolResult(id_, f"seen {id_}") for id_ in ids]))
    return [*made, AssistantMessage(f"{name} answers")]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Any number of exchanges; the last may have ended at a limit, without an answer."""
    shapes = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=5))
    made = [
        item for number, (rounds, width) in enumerate(shapes) for item in exchange(f"e{number}", rounds, width=width)
    ]
    return made[:-1] if draw(st.booleans()) else made


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]
