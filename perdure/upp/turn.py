"""The result of one inference. Source: UPP-1.2, Turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_field import read_int, read_list, read_object
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, message_from_json
from perdure.upp.tool_call import ToolExecution
from perdure.upp.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Turn:
    """All messages of one inference and what it cost; the history before it is not part of it.

    Attributes:
        messages: the inputs, then the model's messages and tool results in order; at least one is the model's.
        tool_executions: one per executed call, in call order.
        cycles: the number of model calls.
        data: the structured answer; None unless a structure was asked for.

    Raises:
        UPPError: INVALID_RESPONSE if there is no assistant message.
    """

    messages: Sequence[Message]
    tool_executions: Sequence[ToolExecution]
    usage: TokenUsage
    cycles: int
    data: JSONValue = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", list(self.messages))
        object.__setattr__(self, "tool_executions", list(self.tool_executions))
        if not any(isinstance(message, AssistantMessage) for message in self.messages):
            raise UPPError("a turn must have at least one assistant message", ErrorCode.INVALID_RESPONSE)

    @property
    def response(self) -> AssistantMessage:
        """The last assistant message."""
        return next(message for message in reversed(self.messages) if isinstance(message, AssistantMessage))

    def to_json(self) -> JSONObject:
        """Returns the JSON form: everything but `response`; `data` is absent if None."""
        result: JSONObject = {
            "messages": [message.to_json() for message in self.messages],
            "toolExecutions": [execution.to_json() for execution in self.tool_executions],
            "usage": self.usage.to_json(),
            "cycles": self.cycles,
        }
        if self.data is not None:
            result["data"] = self.data
        return result

    @classmethod
    def from_json(cls, value: JSONValue) -> Turn:
        """Returns the turn of a JSON object; absent cycles are 1.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object, INVALID_RESPONSE if no assistant message is in it.
        """
        source, what = read_object(value, "turn"), "turn"
        return cls(
            messages=[message_from_json(item) for item in read_list(source, "messages", what)],
            tool_executions=[ToolExecution.from_json(item) for item in read_list(source, "toolExecutions", what)],
            usage=TokenUsage.from_json(source.get("usage", {})),
            cycles=read_int(source, "cycles", what, 1),
            data=source.get("data"),
        )
