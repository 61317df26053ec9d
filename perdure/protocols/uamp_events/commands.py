"""What a connection asks of the server that holds it, once an event of the client has been found in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from perdure.protocols.uamp_events.client_events import ClientEvent, Payment, SessionCreate, VoiceInvite
from perdure.protocols.uamp_events.input_buffer import TurnInput
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.uap.options import RunOptions


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Check the tokens and the agent, then say `Connection.opened` or `Connection.refused`."""

    session_id: str
    event: SessionCreate


@dataclass(frozen=True, slots=True)
class ApplyEvent:
    """An event is for an open session: say `Connection.apply`, while nobody else takes an event of the session."""

    session_id: str
    event: ClientEvent


@dataclass(frozen=True, slots=True)
class RefreshTokens:
    """Check new tokens for these sessions, then say `Connection.updated`. A token that is None stays as it was."""

    session_ids: list[str]
    event_id: str
    token: str | None = field(repr=False)
    payment_token: str | None = field(repr=False)
    is_of_connection: bool


@dataclass(frozen=True, slots=True)
class CloseSession:
    """The client ends the session: cancel its responses, which tells their ends; then tell session.end."""

    session_id: str
    responses: list[str]
    reason: str | None


@dataclass(frozen=True, slots=True)
class QueryCapabilities:
    """Say `Connection.capabilities`."""

    session_id: str
    model: str | None


@dataclass(frozen=True, slots=True)
class StartResponse:
    """Put one input into the session's inbox, with `event_id` as its key, and tell its run as `response_id`.

    Attributes:
        given: what was sent since the last response.
        options: the run's; `history` is not among them, it is in `given`.
        payment_token: of this interaction, else None: then the session's counts.
    """

    session_id: str
    response_id: str
    event_id: str
    given: TurnInput
    options: RunOptions
    payment_token: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class CancelResponse:
    """Cancel the response's run, or its wait for a payment."""

    session_id: str
    response_id: str


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """Give the result of a call that the client ran to its wait."""

    session_id: str
    response_id: str
    call_id: str
    result: str
    is_error: bool
    event_id: str


@dataclass(frozen=True, slots=True)
class SubmitPayment:
    """Pay for a response; without one, the token is kept for the session."""

    session_id: str
    response_id: str | None
    payment: Payment
    event_id: str


@dataclass(frozen=True, slots=True)
class ShowTyping:
    """Tell the chat's other participants."""

    session_id: str
    chat_id: str | None
    is_typing: bool


@dataclass(frozen=True, slots=True)
class MarkRead:
    """Tell the chat's other participants."""

    session_id: str
    chat_id: str | None
    message_id: str


@dataclass(frozen=True, slots=True)
class InviteVoice:
    """Answer with voice.accept or voice.decline of this call id, through `Connection.admit`."""

    session_id: str
    call_id: str
    event: VoiceInvite


@dataclass(frozen=True, slots=True)
class EndVoice:
    """The voice session is over; the client has been told."""

    session_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing is to be done but to log it."""

    type: str
    reason: str


Command: TypeAlias = (
    OpenSession
    | ApplyEvent
    | RefreshTokens
    | CloseSession
    | QueryCapabilities
    | StartResponse
    | CancelResponse
    | AnswerCall
    | SubmitPayment
    | ShowTyping
    | MarkRead
    | InviteVoice
    | EndVoice
    | Ignored
)


@dataclass(slots=True)
class Reaction:
    """What follows from an event.

    Attributes:
        events: to be sent, in order.
        commands: to be carried out, in order.
    """

    events: list[ServerEvent] = field(default_factory=list[ServerEvent])
    commands: list[Command] = field(default_factory=list[Command])

    def and_then(self, other: Reaction) -> Reaction:
        """Both, one after the other."""
        return Reaction([*self.events, *other.events], [*self.commands, *other.commands])
