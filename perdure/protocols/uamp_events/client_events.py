"""The events that a client sends: the twenty of the specification, and message.read, which it calls bidirectional.

Source: UAMP 1.0, sections 5, 7 and 15.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AliasChoices, Field

from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.content_items import WireMessage
from perdure.protocols.uamp_events.media import Media
from perdure.protocols.uamp_events.session_config import ResponseFormat, SessionChange, SessionConfig, ToolDefinition
from perdure.protocols.uamp_events.wire import VERSION, Event, WireModel
from perdure.upp.json_value import JSONObject

Token = Annotated[str | None, Field(repr=False)]


class SessionCreate(Event):
    """Open a session. A client that names no version speaks 1.0."""

    type: Literal["session.create"] = "session.create"
    uamp_version: str = VERSION
    session: SessionConfig
    agent: str | None = None
    chat: str | None = None
    token: Token = None
    payment_token: Token = None
    client_capabilities: Capabilities | None = None


class SessionUpdate(Event):
    """New tokens for a session, or for the whole connection if no session is named."""

    type: Literal["session.update"] = "session.update"
    token: Token = None
    payment_token: Token = None
    session: SessionChange | None = None


class SessionEnd(Event):
    """End a session; either side sends it."""

    type: Literal["session.end"] = "session.end"
    reason: str | None = None


class CapabilitiesQuery(Event):
    """Ask for the server's capabilities."""

    type: Literal["capabilities.query"] = "capabilities.query"
    model: str | None = None


class ClientCapabilities(Event):
    """What the client can do from now on."""

    type: Literal["client.capabilities"] = "client.capabilities"
    capabilities: Capabilities


class InputText(Event):
    """Text; `messages`, if there, is the whole conversation."""

    type: Literal["input.text"] = "input.text"
    text: str
    role: Literal["user", "system", "assistant"] = "user"
    messages: list[WireMessage] | None = None
    payment_token: Token = None
    context: JSONObject | None = None


class InputAudio(Event):
    """A clip, or a chunk of one that goes on until `is_final` is not false."""

    type: Literal["input.audio"] = "input.audio"
    audio: Media
    format: str
    is_final: bool | None = None
    content_id: str | None = None


class InputImage(Event):
    """An image."""

    type: Literal["input.image"] = "input.image"
    image: Media
    format: str | None = None
    detail: str | None = None
    content_id: str | None = None


class InputVideo(Event):
    """Moving pictures."""

    type: Literal["input.video"] = "input.video"
    video: Media
    format: str | None = None
    content_id: str | None = None


class InputFile(Event):
    """A file."""

    type: Literal["input.file"] = "input.file"
    file: Media
    filename: str
    mime_type: str
    content_id: str | None = None


class InputTyping(Event):
    """The user has begun or stopped to type."""

    type: Literal["input.typing"] = "input.typing"
    is_typing: bool
    chat_id: str | None = Field(default=None, validation_alias=AliasChoices("chat_id", "conversation_id"))


class ResponseOverrides(WireModel):
    """What one response does otherwise than its session; an empty list of tools means none."""

    modalities: list[str] | None = None
    instructions: str | None = None
    tools: list[ToolDefinition] | None = None


class ResponseCreate(Event):
    """Ask for a response to what was sent."""

    type: Literal["response.create"] = "response.create"
    response: ResponseOverrides | None = None
    response_format: ResponseFormat | None = None


class ResponseCancel(Event):
    """Stop a response; the current one if none is named."""

    type: Literal["response.cancel"] = "response.cancel"
    response_id: str | None = None


class ToolResult(Event):
    """What a tool of the client's returned."""

    type: Literal["tool.result"] = "tool.result"
    call_id: str
    result: str
    is_error: bool | None = None


class Payment(WireModel):
    """A payment; `amount` is a decimal number as text."""

    scheme: str
    amount: str | None = None
    network: str | None = None
    token: Token = None
    proof: Token = None
    ap2_credential: JSONObject | str | None = Field(default=None, repr=False)


class PaymentSubmit(Event):
    """Pay what was required."""

    type: Literal["payment.submit"] = "payment.submit"
    payment: Payment


class VoiceInvite(Event):
    """Ask for a voice session, with a WebRTC offer where there is one."""

    type: Literal["voice.invite"] = "voice.invite"
    call_id: str | None = None
    chat: str | None = None
    sdp: str | None = None
    voice: JSONObject | None = None
    input_audio_format: str | None = None
    output_audio_format: str | None = None


class VoiceAccept(Event):
    """Accept a voice session."""

    type: Literal["voice.accept"] = "voice.accept"
    call_id: str | None = None
    sdp: str | None = None


class VoiceDecline(Event):
    """Decline a voice session."""

    type: Literal["voice.decline"] = "voice.decline"
    call_id: str | None = None
    reason: str | None = None


class VoiceEnd(Event):
    """End a voice session; either side sends it."""

    type: Literal["voice.end"] = "voice.end"
    call_id: str | None = None
    duration_ms: int | float | None = None
    reason: str | None = None


class Ping(Event):
    """Are you there?"""

    type: Literal["ping"] = "ping"


class MessageRead(Event):
    """A read receipt; either side sends it."""

    type: Literal["message.read"] = "message.read"
    chat_id: str | None = None
    message_id: str
    user_id: str | None = None


InputEvent: TypeAlias = InputText | InputAudio | InputImage | InputVideo | InputFile
ClientEvent: TypeAlias = (
    SessionCreate
    | SessionUpdate
    | SessionEnd
    | CapabilitiesQuery
    | ClientCapabilities
    | InputEvent
    | InputTyping
    | ResponseCreate
    | ResponseCancel
    | ToolResult
    | PaymentSubmit
    | VoiceInvite
    | VoiceAccept
    | VoiceDecline
    | VoiceEnd
    | Ping
    | MessageRead
)
