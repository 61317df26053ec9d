"""Calls of a session's client that wants to speak: taken by the voice backend of the process, if it has one."""

from __future__ import annotations

from perdure.api.doors.uamp.services import Services
from perdure.protocols.uamp_events.client_events import VoiceAccept, VoiceDecline
from perdure.protocols.uamp_events.commands import InviteVoice
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.stored_session import state_of
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.store.uamp.held import held_session
from perdure.store.uamp.rows import UampSessionRow
from perdure.uap.voice import VoiceInvitation


class Calls:
    """The calls of one session."""

    def __init__(self, services: Services, connection: Connection, row: UampSessionRow) -> None:
        """Of a session that a connection holds."""
        self._voice = services.backend.voice
        self._database = services.database
        self._connection = connection
        self._row = row

    async def answer(self, invite: InviteVoice) -> list[ServerEvent]:
        """Have an invitation answered; a call that is taken is stored, so that any process can end it."""
        assert self._voice is not None, "without a backend a connection declines by itself"
        event = invite.event
        answer = await self._voice.accept(
            VoiceInvitation(
                call=invite.call_id,
                tenant=self._row.tenant,
                session=self._row.session,
                agent=self._row.agent,
                principal=self._row.principal,
                sdp=event.sdp,
                voice=event.voice,
                input_audio_format=event.input_audio_format,
                output_audio_format=event.output_audio_format,
            )
        )
        head = self._connection.head(self._row.id)
        if not answer.accepted:
            return [VoiceDecline(**head, call_id=invite.call_id, reason=answer.reason or "declined")]
        told: list[ServerEvent] = [VoiceAccept(**head, call_id=invite.call_id, sdp=answer.sdp)]
        self._connection.admit(self._row.id, told)
        live = self._connection.session(self._row.id)
        async with held_session(self._database, self._row.tenant, self._row.id) as held:
            if held is not None:
                is_current = live.version == held.row.version
                await held.change(state=state_of(live))
                live.version = held.row.version if is_current else live.version
        return told

    async def end(self, call: str) -> None:
        """A call is over."""
        if self._voice is not None:
            await self._voice.end(call)
