"""The events around sessions and responses that a server sends: limits, payments, presence, chat, voice, pong.

Source: UAMP 1.0, sections 6.17 to 6.19 and 7.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from perdure.protocols.uamp_events.client_events import MessageRead, SessionEnd, VoiceAccept, VoiceDecline, VoiceEnd
from perdure.protocols.uamp_events.content_items import ContentItem
from perdure.protocols.uamp_events.server_events import (
    AudioDelta,
    AudioDone,
    CapabilitiesEvent,
    Progress,
    ResponseCancelled,
    ResponseCreated,
    ResponseDelta,
    ResponseDone,
    ResponseError,
    SessionCreated,
    SessionError,
    SessionUpdated,
    Thinking,
    ToolCallDone,
    ToolCallEvent,
    TranscriptDelta,
    TranscriptDone,
    UsageDelta,
)
from perdure.protocols.uamp_events.wire import Event, WireModel
from perdure.upp.json_value import JSONObject

PaymentCode = Literal[
    "insufficient_balance", "token_expired", "token_invalid", "payment_failed", "rate_limited", "mandate_revoked"
]


class RateLimit(Event):
    """How much is left; `reset_at` is seconds since the epoch."""

    type: Literal["rate_limit"] = "rate_limit"
    limit: int
    remaining: int
    reset_at: int


class PresenceTyping(Event):
    """Another participant is typing, or has stopped."""

    type: Literal["presence.typing"] = "presence.typing"
    user_id: str
    username: str | None = None
    is_typing: bool
    chat_id: str | None = None


class PresenceOnline(Event):
    """A participant is there."""

    type: Literal["presence.online"] = "presence.online"
    user_id: str
    username: str | None = None
    chat_id: str | None = None


class PresenceOffline(Event):
    """A participant has gone."""

    type: Literal["presence.offline"] = "presence.offline"
    user_id: str
    username: str | None = None
    chat_id: str | None = None


class ChatMessage(WireModel):
    """A message of a chat; `created_at` is seconds since the epoch."""

    id: str
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    content_items: list[ContentItem] | None = None
    name: str | None = None
    created_at: int


class MessageCreated(Event):
    """A message was added to the chat."""

    type: Literal["message.created"] = "message.created"
    chat_id: str
    message: ChatMessage


class PaymentScheme(WireModel):
    """A way to pay; amounts are decimal numbers as text."""

    scheme: str
    network: str | None = None
    address: str | None = None
    min_amount: str | None = None
    max_amount: str | None = None


class PaymentRequirements(WireModel):
    """What is to be paid, and how; `expires_at` is seconds since the epoch."""

    amount: str = Field(pattern=r"^\d+(\.\d+)?$")
    currency: str
    schemes: list[PaymentScheme] = Field(min_length=1)
    expires_at: int | None = None
    reason: str | None = None
    ap2: JSONObject | None = None


class PaymentRequired(Event):
    """Nothing goes on before this is paid."""

    type: Literal["payment.required"] = "payment.required"
    response_id: str | None = None
    requirements: PaymentRequirements


class PaymentAccepted(Event):
    """It was paid; told once."""

    type: Literal["payment.accepted"] = "payment.accepted"
    payment_id: str
    balance_remaining: str | None = None
    expires_at: int | None = None
    response_id: str | None = None


class PaymentBalance(Event):
    """What is left; amounts are decimal numbers as text."""

    type: Literal["payment.balance"] = "payment.balance"
    balance: str
    currency: str
    low_balance_warning: bool | None = None
    estimated_remaining: int | float | None = None
    expires_at: int | None = None


class PaymentError(Event):
    """It was not paid. Unlike other errors, it is flat."""

    type: Literal["payment.error"] = "payment.error"
    code: PaymentCode
    message: str
    balance_required: str | None = None
    balance_current: str | None = None
    can_retry: bool
    response_id: str | None = None


class Pong(Event):
    """Yes."""

    type: Literal["pong"] = "pong"


ResponseEvent: TypeAlias = (
    ResponseCreated
    | ResponseDelta
    | ResponseDone
    | ResponseError
    | ResponseCancelled
    | ToolCallEvent
    | ToolCallDone
    | Progress
    | Thinking
    | AudioDelta
    | AudioDone
    | TranscriptDelta
    | TranscriptDone
    | UsageDelta
    | PaymentRequired
    | PaymentAccepted
    | PaymentBalance
    | PaymentError
)
ServerEvent: TypeAlias = (
    ResponseEvent
    | SessionCreated
    | SessionUpdated
    | SessionError
    | CapabilitiesEvent
    | RateLimit
    | PresenceTyping
    | PresenceOnline
    | PresenceOffline
    | MessageCreated
    | MessageRead
    | VoiceAccept
    | VoiceDecline
    | VoiceEnd
    | Pong
    | SessionEnd
)
