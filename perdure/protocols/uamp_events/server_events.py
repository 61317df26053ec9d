"""The events of sessions and responses that a server sends. Those around them are in `surrounding_events`.

Source: UAMP 1.0, sections 6 and 7.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.content_items import CalledTool, ContentItem
from perdure.protocols.uamp_events.session_config import Session
from perdure.protocols.uamp_events.usage import UsageStats
from perdure.protocols.uamp_events.wire import VERSION, Event, ResponseStatus, WireModel
from perdure.upp.json_value import JSONObject


class WireError(WireModel):
    """What went wrong; `code` is for programs."""

    code: str
    message: str
    details: JSONObject | None = None


class SessionCreated(Event):
    """A session is open. `in_reply_to` is the id of the event that asked for it; an addition."""

    type: Literal["session.created"] = "session.created"
    uamp_version: str = VERSION
    session: Session
    chat: str | None = None
    agent: str | None = None
    in_reply_to: str | None = None


class SessionUpdated(Event):
    """A session, or the connection, has its new tokens."""

    type: Literal["session.updated"] = "session.updated"
    session: Session | None = None


class SessionError(Event):
    """Something about a session went wrong."""

    type: Literal["session.error"] = "session.error"
    error: WireError
    in_reply_to: str | None = None


class CapabilitiesEvent(Event):
    """What the server can do."""

    type: Literal["capabilities"] = "capabilities"
    capabilities: Capabilities


class ResponseCreated(Event):
    """A response has begun."""

    type: Literal["response.created"] = "response.created"
    response_id: str


class TextDelta(WireModel):
    """More text."""

    type: Literal["text"] = "text"
    text: str


class AudioChunk(WireModel):
    """More sound, base64."""

    type: Literal["audio"] = "audio"
    audio: str


class ToolCallDelta(WireModel):
    """A piece of a call's arguments, with the call's id and name each time."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: CalledTool


class ToolOutcome(WireModel):
    """What a tool of the server's returned: JSON text, and media."""

    call_id: str
    result: str
    status: str
    content_items: list[ContentItem] | None = None


class ToolResultDelta(WireModel):
    """A tool of the server's has returned."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: ToolOutcome


class ToolText(WireModel):
    """What a tool has to tell while it runs."""

    call_id: str
    text: str


class ToolProgressDelta(WireModel):
    """A tool is on its way."""

    type: Literal["tool_progress"] = "tool_progress"
    tool_progress: ToolText


Delta: TypeAlias = Annotated[
    TextDelta | AudioChunk | ToolCallDelta | ToolResultDelta | ToolProgressDelta, Field(discriminator="type")
]


class ResponseDelta(Event):
    """More of a response."""

    type: Literal["response.delta"] = "response.delta"
    response_id: str
    delta: Delta


class Response(WireModel):
    """A response that has ended."""

    id: str
    status: ResponseStatus
    output: list[ContentItem]
    usage: UsageStats | None = None


class ResponseDone(Event):
    """A response is complete; `signature` is an RS256 JWT."""

    type: Literal["response.done"] = "response.done"
    response_id: str
    response: Response
    signature: str | None = None


class ResponseError(Event):
    """A response failed; or, without a response, an event was refused."""

    type: Literal["response.error"] = "response.error"
    response_id: str | None = None
    error: WireError
    in_reply_to: str | None = None


class ResponseCancelled(Event):
    """A response was stopped; what there was of it."""

    type: Literal["response.cancelled"] = "response.cancelled"
    response_id: str
    partial_output: list[ContentItem] | None = None


class ToolCallEvent(Event):
    """The client is to run a tool. `arguments` is complete JSON text; `response_id` is an addition."""

    type: Literal["tool.call"] = "tool.call"
    call_id: str
    name: str
    arguments: str
    response_id: str | None = None


class ToolCallDone(Event):
    """A call that the server ran is over."""

    type: Literal["tool.call_done"] = "tool.call_done"
    call_id: str


class Progress(Event):
    """How far something is; `percent` is 0 to 100."""

    type: Literal["progress"] = "progress"
    target: Literal["tool", "response", "upload", "reasoning"]
    target_id: str | None = None
    stage: str | None = None
    message: str | None = None
    percent: int | float | None = Field(default=None, ge=0, le=100)
    step: int | None = None
    total_steps: int | None = None


class Thinking(Event):
    """Reasoning; never part of the text. `response_id` is an addition."""

    type: Literal["thinking"] = "thinking"
    content: str
    stage: str | None = None
    redacted: bool | None = None
    is_delta: bool | None = None
    response_id: str | None = None


class AudioDelta(Event):
    """More sound, base64."""

    type: Literal["audio.delta"] = "audio.delta"
    response_id: str
    audio: str


class AudioDone(Event):
    """The sound is complete."""

    type: Literal["audio.done"] = "audio.done"
    response_id: str
    duration_ms: int | float | None = None


class TranscriptDelta(Event):
    """More of what is being said."""

    type: Literal["transcript.delta"] = "transcript.delta"
    response_id: str
    transcript: str


class TranscriptDone(Event):
    """All that was said."""

    type: Literal["transcript.done"] = "transcript.done"
    response_id: str
    transcript: str


class UsageDelta(Event):
    """What was used since the last such event; all of them sum up to the response's usage."""

    type: Literal["usage.delta"] = "usage.delta"
    response_id: str
    delta: UsageStats


TERMINAL = (ResponseDone, ResponseError, ResponseCancelled)
"""The events that end a response; each response has exactly one of them."""
