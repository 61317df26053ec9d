"""One ask of an agent elsewhere: delivered once, its stream read, its wait answered.

An envelope is signed once and kept before it is sent. One that has grown too old to be taken is signed anew under the same id:
the other side does no id twice, and says so where it has the older one.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from uuid import UUID

from perdure.activities import contracts
from perdure.errors import InvalidInput, RunCancelled, ServerUnavailable, UnknownSession
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType, read_delta
from perdure.protocols.uamp_envelope.envelope import Envelope, read_envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.signature import envelope_bytes
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES
from perdure.runtime.envelopes.client.answer import AnswerCollector
from perdure.runtime.envelopes.client.client import EnvelopeClient
from perdure.runtime.envelopes.client.connection import Sent
from perdure.runtime.envelopes.client.errors import UnsignedError, UntrustedServer
from perdure.runtime.envelopes.remote_clients import RemoteClients
from perdure.runtime.envelopes.remote_outcome import TryLater, agent_failed, answered, failed
from perdure.runtime.envelopes.remote_parts import RemoteParts
from perdure.runtime.session_servers import address_of
from perdure.runtime.temporal import signal_session
from perdure.store.remote_asks import AskRow, read_frames
from perdure.store.remote_leases import Lease, answer_ask, keep_envelope, keep_frames, note_accepted
from perdure.store.sessions import find_address
from perdure.testing.crash import crash_point
from perdure.uap.events import run_event
from perdure.uap.remote_agent import asked_of
from perdure.upp.json_value import JSONObject, JSONValue

logger = logging.getLogger(__name__)

_KEEP_SECONDS = 1.0
_MOST_BYTES = 16 * 1024 * 1024
_REFUSED_TRIES = 8
_MAY_PASS = {
    True: (Code.INTERNAL, Code.UNAUTHENTICATED, Code.UNAUTHORIZED),  # it was taken: a token has expired since
    False: (Code.INTERNAL,),
}
"""Refusals that nobody has signed and that may be over soon, of an ask that the other side has, and of others."""
_CANCEL_TRIES = {True: 25, False: 4}
"""Of an ask that the other side has, and of one that it is not known to have: it may never have been there."""


class RemoteAsk:
    """One ask, while one process follows it.

    Attributes:
        row: as it was claimed.
        is_ending: its wait is being answered; to be let alone.
    """

    def __init__(self, parts: RemoteParts, clients: RemoteClients, row: AskRow, lease: Lease) -> None:
        """Do nothing yet."""
        self.row = row
        self.is_ending = False
        self._parts = parts
        self._lease = lease
        self._envelope = None if row.envelope is None else read_envelope(row.envelope)
        self._accepted = row.accepted
        self._stream_id = row.stream_id
        self._clients = clients

    async def run(self) -> None:
        """Ask, and answer the wait with what came of it.

        Raises:
            TryLater: the other side is away or busy; nothing is lost by trying again.
            LeaseLost: another process follows the ask now.
        """
        answer = await self._outcome()
        self.is_ending = True
        crash_point("remote.answering")
        won = await answer_ask(self._parts.database, self._lease, self.row, answer, by=self._peer)
        crash_point("remote.answered")
        if won:
            await self._wake()

    async def cancel(self) -> None:
        """Tell the other side that its answer is not wanted any more, if it may know the ask. Harmless if it has been told.

        Raises:
            TryLater: it is away.
        """
        if self._envelope is None:
            return
        try:
            async with self._clients.client(self.row) as client:
                await client.cancel(Sent(self._envelope, self._stream_id))
        except InvalidInput as error:
            logger.warning("remote.cancel_failed ask=%s url=%s %s", self.row.id, self.row.url, error)
        except (ServerUnavailable, UAMPError) as error:
            may_come_yet = _code(error) is Code.UNKNOWN_STREAM and not self._accepted and self.row.failures < 2
            is_away = isinstance(error, ServerUnavailable) or error.retryable
            if may_come_yet or (is_away and self.row.failures < _CANCEL_TRIES[self._accepted]):
                raise TryLater.of(error) from error
            logger.info("remote.cancel_refused ask=%s url=%s %s", self.row.id, self.row.url, error)

    async def _outcome(self) -> JSONObject:
        """What the wait is answered."""
        try:
            async with self._clients.client(self.row) as client:
                return await self._read(client, await self._delivered(client))
        except (InvalidInput, RunCancelled) as error:
            return failed(error)
        except UntrustedServer as error:
            if self._accepted:  # it has been trusted: a certificate that has expired will be replaced
                raise TryLater.of(error) from error
            return failed(error)
        except ServerUnavailable as error:
            raise TryLater.of(error) from error
        except UAMPError as error:
            may_pass = isinstance(error, UnsignedError) and _code(error) in _MAY_PASS[self._accepted]
            if error.retryable or (may_pass and self.row.failures < _REFUSED_TRIES):
                raise TryLater.of(error) from error
            return failed(error)

    async def _delivered(self, client: EnvelopeClient) -> Sent:
        """The ask as the other side has it."""
        envelope = self._envelope
        if envelope is not None and self._accepted:
            return Sent(envelope, self._stream_id)
        if envelope is None or self._parts.clock() - envelope.sent_at > self._parts.times.stale_after:
            envelope = await self._signed(client)
        try:
            sent = await client.deliver(envelope)
        except UAMPError as error:
            if _code(error) is not Code.CONFLICT:
                raise
            sent = Sent(envelope, self._stream_id)  # it has the older one
        crash_point("remote.delivered")
        self._stream_id = sent.stream_id or self._stream_id
        await note_accepted(self._parts.database, self._lease, self.row.key, stream_id=self._stream_id)
        self._accepted = True
        return Sent(envelope, self._stream_id)

    async def _signed(self, client: EnvelopeClient) -> Envelope:
        """The envelope, kept."""
        row = self.row
        peer = row.peer or (await client.manifest()).did
        envelope = client.sign(Intent.ASK, asked_of(row.arguments), to=peer, id=UUID(row.id), stream_id=self._stream_id)
        crash_point("remote.signed")
        own, data = client.identity.did, envelope_bytes(envelope)
        if len(data) > MAX_ENVELOPE_BYTES:
            raise InvalidInput(
                f"the message makes an envelope of {len(data):,} bytes; at most {MAX_ENVELOPE_BYTES:,} are sent"
            )
        await keep_envelope(self._parts.database, self._lease, row.key, own=own, peer=peer, envelope=data)
        crash_point("remote.kept")
        self._envelope = envelope
        return envelope

    async def _read(self, client: EnvelopeClient, sent: Sent) -> JSONObject:
        """Read the stream to its end; frames are kept before they are ACKed."""
        row = self.row
        kept = [read_delta(frame) for frame in await read_frames(self._parts.database, row.key, row.id)]
        collector, size = AnswerCollector(), 0
        for delta in kept:
            collector.add(delta)
            size += len(delta.to_bytes())
        waiting: list[tuple[Delta, bytes]] = []

        async def keep() -> None:
            if waiting:
                await self._keep(waiting)
                waiting.clear()

        consumer = client.consumer(sent, already=kept, before_resume=keep)
        loop = asyncio.get_running_loop()
        kept_at = loop.time()
        async with aclosing(consumer.frames()) as frames:
            async for delta in frames:
                if delta.type.is_terminal:
                    return _came_to(delta, collector, is_signed=consumer.is_signed, needs_signature=row.signed)
                collector.add(delta)
                data = delta.to_bytes()
                size += len(data)
                if size > _MOST_BYTES:
                    return failed(InvalidInput(f"its answer is longer than {_MOST_BYTES:,} bytes"))
                waiting.append((delta, data))
                is_told = delta.type is DeltaType.PROGRESS
                if consumer.sequence.is_ack_due or is_told or loop.time() - kept_at > _KEEP_SECONDS:
                    await keep()
                    kept_at = loop.time()
        raise AssertionError("frames() ends after a terminal frame or raises")

    async def _keep(self, waiting: list[tuple[Delta, bytes]]) -> None:
        frames = [(delta.seq, data) for delta, data in waiting]
        told = [self._event(delta) for delta, _ in waiting if delta.type is DeltaType.PROGRESS]
        row = self.row
        await keep_frames(self._parts.database, self._lease, row.key, frames, run=row.run, events=told)
        crash_point("remote.frames_kept")
        if told:
            self._parts.announcer.changed(row.key)

    def _event(self, delta: Delta) -> JSONValue:
        row = self.row
        return run_event(
            "remote.progressed", {"wait": row.wait, "tool": row.tool, "peer": self._peer, "progress": delta.payload}
        )

    async def _wake(self) -> None:
        """Tell the run that it has its answer; what is lost here the sweep does."""
        parts, key = self._parts, self.row.key
        parts.announcer.changed(key)
        try:
            address = address_of(key, await find_address(parts.database, key))
            await signal_session(parts.client, address, contracts.ANSWER, {"wait": self.row.wait})
        except (ServerUnavailable, UnknownSession) as error:
            logger.warning("wait.wake_deferred wait=%s %s", self.row.wait, error)

    @property
    def _peer(self) -> str:
        return self._envelope.recipients[0] if self._envelope is not None else self.row.peer or self.row.url


def _came_to(terminal: Delta, collector: AnswerCollector, *, is_signed: bool, needs_signature: bool) -> JSONObject:
    try:
        answer = collector.answer(terminal, is_signed=is_signed)
    except UAMPError as error:
        return agent_failed(error)
    return answered(answer, needs_signature=needs_signature)


def _code(error: Exception) -> Code | None:
    return Code(error.code) if isinstance(error, UAMPError) and error.code in tuple(Code) else None
