"""What follows from an event within its session. Source: UAMP 1.0, sections 5 and 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure.protocols.uamp_events.client_events import (
    CapabilitiesQuery,
    ClientCapabilities,
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    InputTyping,
    InputVideo,
    MessageRead,
    PaymentSubmit,
    ResponseCancel,
    ResponseCreate,
    SessionEnd,
    SessionUpdate,
    ToolResult,
    VoiceAccept,
    VoiceDecline,
    VoiceEnd,
    VoiceInvite,
)
from perdure.protocols.uamp_events.commands import (
    AnswerCall,
    CancelResponse,
    CloseSession,
    EndVoice,
    Ignored,
    InviteVoice,
    MarkRead,
    QueryCapabilities,
    Reaction,
    RefreshTokens,
    ShowTyping,
    StartResponse,
    SubmitPayment,
)
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.live_session import LiveSession
from perdure.protocols.uamp_events.log_row import Head
from perdure.protocols.uamp_events.parsing import Parsed
from perdure.protocols.uamp_events.run_options import run_options
from perdure.uap.ids import derive_id


class MakeHead(Protocol):
    """Makes what a new event begins with."""

    def __call__(self, session_id: str | None = None) -> Head:
        """The head of an event of this session."""
        ...


class SessionEvents:
    """Takes the events of open sessions."""

    def __init__(self, head: MakeHead, draw_id: Callable[[], str], now_ms: Callable[[], int], *, voice: bool) -> None:
        """Answer with events that begin with `head`; `voice` says whether there is a voice backend."""
        self._head = head
        self._draw_id = draw_id
        self._now_ms = now_ms
        self._voice = voice

    def take(self, session: LiveSession, event: Parsed) -> Reaction:
        """What follows from an event.

        Raises:
            EventRefused: it cannot be used now; nothing has changed.
        """
        match event:
            case InputText() | InputAudio() | InputImage() | InputVideo() | InputFile():
                session.inputs.add(event)
                return Reaction()
            case ResponseCreate():
                return self._respond(session, event)
            case ResponseCancel():
                return self._cancel(session, event)
            case ToolResult():
                return self._answer(session, event)
            case SessionUpdate():
                if event.session is not None:
                    session.change(event.session)
                payment = event.payment_token or (event.session.payment_token if event.session else None)
                return Reaction(
                    commands=[RefreshTokens([session.id], event.event_id, event.token, payment, is_of_connection=False)]
                )
            case SessionEnd():
                return self._end(session, event)
            case _:
                return self._around(session, event)

    def _end(self, session: LiveSession, event: SessionEnd) -> Reaction:
        session.is_ending = True
        return Reaction(commands=[CloseSession(session.id, session.gate.open_responses, event.reason)])

    def _respond(self, session: LiveSession, event: ResponseCreate) -> Reaction:
        current = session.gate.current
        if current is not None:
            raise EventRefused(
                Code.RESPONSE_IN_PROGRESS,
                f"response {current} is in progress; wait for its end, or cancel it",
                details={"response_id": current},
            )
        system = [*session.system, *session.inputs.system]
        options = run_options(session.config, event, system, session.server, session.client)
        given = session.inputs.drain()
        session.system = system
        response = f"resp_{derive_id('uamp', session.id, 'response', event.event_id)}"
        session.gate.reserve(response)
        start = StartResponse(session.id, response, event.event_id, given, options, given.payment_token)
        return Reaction(commands=[start])

    def _cancel(self, session: LiveSession, event: ResponseCancel) -> Reaction:
        response = event.response_id or session.gate.current
        if response is None or not session.gate.is_open(response):
            return Reaction(commands=[Ignored(event.type, "no such response is in progress")])
        if response in session.cancelling:
            return Reaction(commands=[Ignored(event.type, "the response is being cancelled")])
        session.cancelling.add(response)
        return Reaction(commands=[CancelResponse(session.id, response)])

    def _answer(self, session: LiveSession, event: ToolResult) -> Reaction:
        try:
            response = session.gate.answer(event.call_id)
        except KeyError as error:
            raise EventRefused(
                Code.UNKNOWN_CALL_ID, f"there is no tool.call with call_id {event.call_id[:200]!r}"
            ) from error
        if response is None:
            return Reaction(commands=[Ignored(event.type, "the call has its result, or its response has ended")])
        failed = event.is_error or False
        return Reaction(
            commands=[AnswerCall(session.id, response, event.call_id, event.result, failed, event.event_id)]
        )

    def _around(self, session: LiveSession, event: Parsed) -> Reaction:
        match event:
            case CapabilitiesQuery():
                return Reaction(commands=[QueryCapabilities(session.id, event.model)])
            case ClientCapabilities():
                session.client = event.capabilities
                return Reaction()
            case PaymentSubmit():
                command = SubmitPayment(session.id, session.gate.current, event.payment, event.event_id)
                return Reaction(commands=[command])
            case InputTyping():
                return Reaction(commands=[ShowTyping(session.id, event.chat_id or session.chat, event.is_typing)])
            case MessageRead():
                return Reaction(commands=[MarkRead(session.id, event.chat_id or session.chat, event.message_id)])
            case VoiceInvite():
                return self._invited(session, event)
            case VoiceEnd():
                return self._hung_up(session, event)
            case VoiceAccept() | VoiceDecline():
                return Reaction(commands=[Ignored(event.type, "the server has invited nobody")])
            case _:
                return Reaction(commands=[Ignored(event.type, "it has no meaning within a session")])

    def _invited(self, session: LiveSession, event: VoiceInvite) -> Reaction:
        call = event.call_id or self._draw_id()
        if not self._voice:
            return Reaction([VoiceDecline(**self._head(session.id), call_id=call, reason="unsupported")])
        return Reaction(commands=[InviteVoice(session.id, call, event)])

    def _hung_up(self, session: LiveSession, event: VoiceEnd) -> Reaction:
        call = event.call_id or next(reversed(session.voice), None)
        if call is None or call not in session.voice:
            return Reaction(commands=[Ignored(event.type, "no such voice session is open")])
        took = self._now_ms() - session.voice.pop(call)
        told = VoiceEnd(**self._head(session.id), call_id=call, duration_ms=took, reason=event.reason)
        return Reaction([told], [EndVoice(session.id, call)])
