"""Reading one chunk of a UI message stream."""

from __future__ import annotations

from perdure.protocols.threadprotocol.moments import normal_moment
from perdure.protocols.threadprotocol.problem import InvalidThread, refuse
from perdure.protocols.threadprotocol.response import system_type
from perdure.upp.json_value import JSONObject, JSONValue


def read_text(chunk: JSONObject, name: str) -> str:
    """A member that must be a text. Raises InvalidThread."""
    value = chunk.get(name)
    if not isinstance(value, str):
        raise refuse(f"chunk.{name}", "stream", f"a {chunk.get('type')} chunk needs it, a text", "add it")
    return value


def read_moment(metadata: JSONValue) -> str | None:
    """The time that a message's metadata tells, as Pydantic AI does or beside it; None if it tells none.

    The metadata is the application's: what is no time there is no fault.
    """
    source = metadata if isinstance(metadata, dict) else {}
    own = source.get("pydantic_ai")
    at = own.get("timestamp") if isinstance(own, dict) else source.get("timestamp")
    try:
        return normal_moment(at) if isinstance(at, str) else None
    except ValueError:
        return None


SHOWN_ONLY: JSONObject = {"threadprotocol": {"shown_only": True}}
"""The `providerMetadata` of a file that is shown to people, and that no agent said."""


def is_shown_only(metadata: JSONValue) -> bool:
    """Whether a file chunk's `providerMetadata` says that no agent said it."""
    own = metadata.get("threadprotocol") if isinstance(metadata, dict) else None
    return isinstance(own, dict) and own.get("shown_only") is True


def unknown_call(chunk: JSONObject) -> InvalidThread:
    """The error of a chunk whose call no chunk began."""
    message = f"no call {chunk.get('toolCallId')!r:.80} was begun"
    return refuse("chunk.toolCallId", "stream", message, "send tool-input-available before it")


def data_type(kind: str) -> str:
    """The system action's type for a data chunk's: `data-tool_grant` is `system.tool_grant`; a hyphen stays."""
    name = kind.removeprefix("data-")
    plain = system_type(name)
    return f"system.{name}" if f"system.{name}".replace("-", "_") == plain else plain
