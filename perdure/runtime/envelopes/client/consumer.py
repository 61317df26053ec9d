"""Reads one stream to its end: each frame once and in order, ACKed once it is used, over broken connections and gaps.

The ACK of a frame goes out when the next one is asked for, so who is slow to use frames slows the sending.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.jws import CompactJWS, read_compact
from perdure.protocols.uamp_envelope.receive_sequence import ReceiveSequence
from perdure.protocols.uamp_envelope.transcript import Transcript
from perdure.runtime.envelopes.client.connection import EnvelopeConnection, PeerKeys, Sent
from perdure.runtime.envelopes.client.errors import ConnectionBroken
from perdure.runtime.envelopes.client.patience import DEFAULT_PATIENCE, Patience, Tries


class Consumer:
    """One stream, read to its end by one process.

    A process that goes on where another has stopped makes a consumer of its own and gives it the frames that are stored:
    the signature at the end is over all of them.

    Attributes:
        sequence: how far it has read.
        is_signed: whether the end has come with the other agent's signature over all frames, and it verified.
    """

    def __init__(
        self,
        connection: EnvelopeConnection,
        sent: Sent,
        *,
        keys: PeerKeys,
        acknowledge: Callable[[int], Awaitable[None]],
        patience: Patience = DEFAULT_PATIENCE,
        already: Sequence[Delta] = (),
        before_resume: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare to read; nothing is asked for yet.

        Args:
            connection: brings the frames.
            sent: what opened the stream.
            keys: finds those of the agent that was asked.
            acknowledge: sends an ACK of all frames up to one.
            patience: with broken connections and gaps.
            already: frames from the first on that an earlier consumer has had; they are not asked for again.
            before_resume: awaited before a stream that broke is asked for from after the last frame, which ACKs that one:
                keep what must not get lost.

        Raises:
            UAMPError: 4.04: the envelope opened no stream; 4.09 or 4.00: `already` are not the first frames of it.
        """
        if sent.stream_id is None:
            raise UAMPError(Code.UNKNOWN_STREAM, f"{sent.envelope.intent} opened no stream", ref=sent.envelope.id_text)
        self.sequence = ReceiveSequence(sent.stream_id, sent.envelope.window)
        self.is_signed = False
        self._connection = connection
        self._sent = sent
        self._keys = keys
        self._acknowledge = acknowledge
        self._before_resume = before_resume
        self._tries = Tries(patience.broken, patience.pause)
        self._silence_seconds = patience.silence.total_seconds()
        self._transcript = Transcript()
        for delta in already:
            self.sequence = self.sequence.taken(delta)
            self._transcript.add(delta)
        if already:
            self.sequence = self.sequence.acknowledged()

    async def frames(self) -> AsyncGenerator[Delta, None]:
        """The frames, each once, in order, with the terminal one as the last.

        Raises:
            ConnectionBroken: no frame could be had for as long as patience lasts.
            UnsignedError: the other side refuses to go on.
            UAMPError: 4.01: frames were changed on the way, or the signature over them is of another; 4.00: what comes
                is no stream.
        """
        loop = asyncio.get_running_loop()
        while not self.sequence.has_ended:
            began = loop.time()
            broken: ConnectionBroken | UAMPError = ConnectionBroken("the stream was cut off before its end")
            try:
                async with aclosing(self._connection.stream(self._sent, after=self.sequence.last_seq)) as incoming:
                    async for delta in incoming:
                        if await self._is_new(delta):
                            yield delta
                            await self._acknowledge_if_due()
                        if self.sequence.has_ended:
                            return
            except ConnectionBroken as error:
                broken = error
            except UAMPError as error:
                if not error.retryable:
                    raise
                broken = error
            if loop.time() - began > self._silence_seconds:
                self._tries.reset()  # it stood, and something has come: only the agent had nothing to say
            if self._before_resume is not None:
                await self._before_resume()
            if not await self._tries.wait(broken.retry_after if isinstance(broken, UAMPError) else None):
                raise broken

    async def _is_new(self, delta: Delta) -> bool:
        """Take a frame in; False if it was taken before."""
        is_repeat = self.sequence.is_repeat(delta)
        self.sequence = self.sequence.taken(delta)
        if is_repeat:
            return False
        self._tries.reset()
        if not delta.type.is_terminal:
            self._transcript.add(delta)
        elif "transcript" in delta.payload:
            signature = _signature(delta)
            self._transcript.verify(delta, await self._keys.keys(self._sent.peer, kid=signature.kid))
            self.is_signed = True
        return True

    async def _acknowledge_if_due(self) -> None:
        seq = self.sequence.last_seq
        if seq is None or not self.sequence.is_ack_due:
            return
        try:
            await self._acknowledge(seq)
        except ConnectionBroken:
            return  # the next ACK covers this one, and so does the number that a new connection begins with
        self.sequence = self.sequence.acknowledged()


def _signature(terminal: Delta) -> CompactJWS:
    value = terminal.payload["transcript"]
    token = value.get("jws") if isinstance(value, dict) else None
    if not isinstance(token, str):
        raise malformed("the terminal delta's transcript has no signature")
    return read_compact(token)
