"""The desk: takes envelopes in, opens their streams, and notes ACKs. Every binding is a way to it and decides nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.protocols.uamp_envelope.ack import read_ack_envelope
from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed, read_error
from perdure.protocols.uamp_envelope.identifier import check_stream_id
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.runtime.envelopes.asks import begin, begins_by_itself, cancel_run, followed_session
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.delta_stream import DeltaStream, acknowledge_frames, open_delta_stream
from perdure.runtime.envelopes.ending import end_stream
from perdure.runtime.envelopes.informs import join_active
from perdure.runtime.envelopes.parts import DeskParts, EnvelopeRules
from perdure.runtime.envelopes.receiving import Admitted, admit
from perdure.store.envelopes.exchanges import find_by_envelope, find_stream, named_stream
from perdure.store.envelopes.keeping import keep_envelope
from perdure.store.envelopes.rows import EnvelopeRow, ExchangeRow, Kept, NewEnvelope
from perdure.testing.crash import crash_point
from perdure.uap.ids import new_id
from perdure.upp.json_value import JSONObject

__all__ = ["DeskParts", "EnvelopeDesk", "EnvelopeRules", "Receipt"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is told to the sender of an envelope that was taken.

    Attributes:
        envelope_id: as the sender wrote it.
        stream_id: of the stream that it opened; None if it opened none.
        location: that stream's path, percent-encoded; likewise.
        repeated: whether the same envelope had been taken before; nothing was done again.
    """

    envelope_id: str
    stream_id: str | None
    location: str | None
    repeated: bool


class EnvelopeDesk:
    """The desk of one tenant's agents."""

    def __init__(self, parts: DeskParts) -> None:
        """Work with `parts`, which stay their maker's to close."""
        self.parts = parts

    async def receive(self, data: bytes, caller: PeerCaller) -> Receipt:
        """Take an envelope in. When this returns it is stored, and what it asks for is done whatever happens.

        Args:
            data: its JSON as received.
            caller: who the transport says has sent it.

        Raises:
            UAMPError: it is refused; nothing is kept of it.
        """
        admitted = await admit(self.parts, data, caller)
        kept = await self._keep(admitted, caller)
        crash_point("envelope.kept")
        await self._act(admitted, kept)
        stream_id, location = kept.answer.get("stream_id"), kept.answer.get("location")
        return Receipt(
            envelope_id=admitted.envelope.id_text,
            stream_id=stream_id if isinstance(stream_id, str) else None,
            location=location if isinstance(location, str) else None,
            repeated=kept.repeated,
        )

    async def open_stream(
        self, stream_id: str, caller: PeerCaller, *, last_seq: int | None, window: int | None = None
    ) -> DeltaStream:
        """Open the stream of an exchange of the caller's.

        Args:
            stream_id: decoded.
            caller: who asks; only the one who opened the exchange may read it.
            last_seq: the last delta that it has, which counts as an ACK; None to begin at 0.
            window: how many deltas it takes without an ACK from now on; None as it said when it asked.

        Raises:
            UAMPError: 4.04 there is none, or it is another's; 4.10 it is kept no longer; 4.00 `last_seq` was never sent.
        """
        exchange = await self._stream(stream_id, caller)
        if window is not None:
            window = min(window, self.parts.rules.max_window)
        return await open_delta_stream(self.parts.streams, exchange, last_seq=last_seq, window=window)

    async def acknowledge(self, stream_id: str, caller: PeerCaller, seq: int) -> None:
        """Note that the caller has all deltas up to `seq`: an ACK that came as a delta.

        Raises:
            UAMPError: 4.04 there is no such stream; 4.00 the delta was never sent.
        """
        exchange = await self._stream(stream_id, caller)
        await acknowledge_frames(self.parts.streams, exchange.id, seq)

    async def _stream(self, stream_id: str, caller: PeerCaller) -> ExchangeRow:
        """An exchange by its stream, as one of the caller's names opened it. Raises UAMPError."""
        check_stream_id(stream_id)
        parts = self.parts
        for did in caller.others:
            found = await find_stream(parts.database, parts.tenant, stream_id, peer=did)
            if found is not None:
                return self._kept_still(found)
        return self._kept_still(await named_stream(parts.database, parts.tenant, stream_id, peer=caller.did))

    def _kept_still(self, exchange: ExchangeRow) -> ExchangeRow:
        """The same, unless its time is over: that does not wait for a sweep. Raises UAMPError (4.10)."""
        if exchange.ended_at is not None and exchange.ended_at + self.parts.rules.retention < self.parts.clock():
            raise UAMPError(Code.EXPIRED, "this stream has ended and is kept no more")
        return exchange

    async def _keep(self, admitted: Admitted, caller: PeerCaller) -> Kept:
        parts, envelope = self.parts, admitted.envelope
        await self._check_place(admitted)
        new = NewEnvelope(
            tenant=parts.tenant,
            own=admitted.own.did,
            envelope=envelope,
            raw=admitted.raw,
            principal=caller.name,
            stream_id=(envelope.stream_id or new_id()) if envelope.intent.opens else None,
            proposal=_proposal(admitted) if envelope.intent is Intent.PROPOSE else None,
            error=_told_error(admitted) if envelope.intent is Intent.ERROR else None,
        )
        return await keep_envelope(
            parts.database,
            new,
            now=parts.clock(),
            max_open=parts.rules.max_open,
            max_open_of_sender=parts.rules.max_open_of_sender,
            rate_per_hour=parts.rules.rate_per_hour,
        )

    async def _check_place(self, admitted: Admitted) -> None:
        """See that what an envelope means is there, where the store cannot tell. Raises UAMPError."""
        parts, own, envelope = self.parts, admitted.own.did, admitted.envelope
        if envelope.intent is Intent.SUBSCRIBE:
            await followed_session(parts, own, envelope)
        seq = read_ack_envelope(envelope)
        if seq is not None:
            about = await self._acked(own, envelope)
            if about is not None and seq > about.sent:
                raise malformed(f"delta_seq {seq} has not been sent; the last one is {about.sent}")

    async def _acked(self, own: str, envelope: Envelope) -> ExchangeRow | None:
        """The exchange whose deltas an envelope ACKs."""
        parts = self.parts
        if envelope.reply_to is not None:
            return await find_by_envelope(parts.database, parts.tenant, own, envelope.sender, str(envelope.reply_to))
        if envelope.stream_id is not None:
            return await find_stream(parts.database, parts.tenant, envelope.stream_id, peer=envelope.sender)
        return None

    async def _act(self, admitted: Admitted, kept: Kept) -> None:
        """Do what an envelope is for. All of it may be done again: a resend is how a sender makes sure."""
        parts, envelope, exchange = self.parts, admitted.envelope, kept.exchange
        match envelope.intent:
            case Intent.INFORM | Intent.NOTIFY:
                if kept.session is not None:
                    await join_active(parts, _row(parts.tenant, admitted, kept.session, parts.clock()))
            case _ if exchange is None:
                pass
            case Intent.ASK | Intent.SUBSCRIBE | Intent.PROPOSE:
                if begins_by_itself(parts, exchange.intent):
                    await begin(parts, exchange)
            case Intent.CANCEL if exchange.state is State.CANCELLED:
                crash_point("envelope.cancelling")
                await end_stream(parts.streams, exchange.id, DeltaType.CANCEL, {}, step=Step.CANCEL)
                await cancel_run(parts, exchange)
            case Intent.ERROR if exchange.state is State.ERROR:
                await end_stream(parts.streams, exchange.id, DeltaType.ERROR, _told_error(admitted), step=Step.ERROR)
            case Intent.PROGRESS:
                seq = read_ack_envelope(envelope)
                if seq is not None and envelope.sender == exchange.sender:
                    await acknowledge_frames(parts.streams, exchange.id, seq)
            case _:
                pass


def _proposal(admitted: Admitted) -> JSONObject:
    """What a propose says, for those who answer it."""
    content = admitted.content
    is_image = content.type.lower().startswith("image/")
    return {"type": content.type, "text": f"{len(content.data)} bytes" if is_image else content.text}


def _told_error(admitted: Admitted) -> JSONObject:
    """The error that a sender tells of, as its own stream repeats it."""
    try:
        return read_error(parse_object(admitted.content.data)).to_json()
    except UAMPError:
        return UAMPError(Code.INTERNAL, "the sender ended the exchange with an error").to_json()


def _row(tenant: str, admitted: Admitted, session: str, now: datetime) -> EnvelopeRow:
    envelope = admitted.envelope
    return EnvelopeRow(
        tenant=tenant,
        own=admitted.own.did,
        sender=envelope.sender,
        id=str(envelope.id),
        intent=envelope.intent,
        raw=admitted.raw,
        exchange=None,
        session=session,
        at=now,
    )
