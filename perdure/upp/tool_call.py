"""What a model asks of a tool, what it is told, and the record of it: plain values that are stored and sent.

Tools themselves are in `tools`. Source: UPP-1.2, ToolCall, ToolResult and ToolExecution.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.upp.json_field import read_int, read_object, read_optional_bool, read_str
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.tool_media import ToolContent


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asked for.

    Attributes:
        tool_call_id: the id that the vendor gave; the result refers to it.
        tool_name: the name that the model wrote, whether or not such a tool exists.
        arguments: normally an object by parameter name; whatever else the model wrote is kept as it is, and text
            that is no JSON is kept as a string.
    """

    tool_call_id: str
    tool_name: str
    arguments: JSONValue

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"toolCallId": self.tool_call_id, "toolName": self.tool_name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, value: JSONValue) -> ToolCall:
        """Returns the call of a JSON object; absent arguments are `{}`.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "tool call"), "tool call"
        return cls(
            read_str(source, "toolCallId", what), read_str(source, "toolName", what), source.get("arguments", {})
        )


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model is told about one call."""

    tool_call_id: str
    result: JSONValue
    is_error: bool = False

    @property
    def text(self) -> str:
        """The result as a model reads it: a string itself, anything else as JSON."""
        return self.result if isinstance(self.result, str) else dumps(self.result).decode("utf-8", "surrogatepass")

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"toolCallId": self.tool_call_id, "result": self.result, "isError": self.is_error}

    @classmethod
    def from_json(cls, value: JSONValue) -> ToolResult:
        """Returns the result of a JSON object; absent `isError` is False.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "tool result"), "tool result"
        is_error = read_optional_bool(source, "isError", what) or False
        return cls(read_str(source, "toolCallId", what), source.get("result"), is_error)


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """The record of one executed call.

    Attributes:
        arguments: what the tool was called with.
        result: the tool's value, or the error text.
        duration_ms: how long the tool's own function took; 0 if it was not called.
        approved: the approval handler's answer; None if the tool has no handler.
        content: the media that the tool returned; no part of the record's JSON, whose result names it.
    """

    tool_name: str
    tool_call_id: str
    arguments: JSONValue
    result: JSONValue
    is_error: bool
    duration_ms: int
    approved: bool | None = None
    content: ToolContent | None = field(default=None, repr=False, compare=False)

    def to_result(self) -> ToolResult:
        """Returns what the model is told about this execution."""
        return ToolResult(self.tool_call_id, self.result, self.is_error)

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form; `duration` is in milliseconds."""
        result: JSONObject = {
            "toolName": self.tool_name,
            "toolCallId": self.tool_call_id,
            "arguments": self.arguments,
            "result": self.result,
            "isError": self.is_error,
            "duration": self.duration_ms,
        }
        if self.approved is not None:
            result["approved"] = self.approved
        return result

    @classmethod
    def from_json(cls, value: JSONValue) -> ToolExecution:
        """Returns the record of a JSON object.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "tool execution"), "tool execution"
        return cls(
            tool_name=read_str(source, "toolName", what),
            tool_call_id=read_str(source, "toolCallId", what),
            arguments=source.get("arguments", {}),
            result=source.get("result"),
            is_error=read_optional_bool(source, "isError", what) or False,
            duration_ms=read_int(source, "duration", what, 0),
            approved=read_optional_bool(source, "approved", what),
        )
