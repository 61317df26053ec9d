"""The client: envelopes built, signed and delivered until the other side has them; streams read; other agents' manifests.

An envelope is delivered again with the same id until an answer to it comes, which is harmless: the other side knows it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Unpack

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.ack import ack_body
from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.runtime.envelopes.client.answer import Answer, AnswerCollector, Decision, read_decision
from perdure.runtime.envelopes.client.bindings import connect, server_url
from perdure.runtime.envelopes.client.connection import Binding, EnvelopeConnection, PeerKeys, Sent
from perdure.runtime.envelopes.client.consumer import Consumer
from perdure.runtime.envelopes.client.directory import Directory, HubView, Manifest
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError
from perdure.runtime.envelopes.client.identity import Identity
from perdure.runtime.envelopes.client.keys import AgentKeys
from perdure.runtime.envelopes.client.patience import DEFAULT_PATIENCE, Patience, Tries
from perdure.runtime.envelopes.client.signing import Members, signed_envelope
from perdure.runtime.envelopes.client.tls import ClientCertificate, Trust
from perdure.runtime.outbound import is_loopback_name, trusting
from perdure.upp.timestamp import now


class EnvelopeClient:
    """Asks the agents of one server, in the name of one identity.

    async with EnvelopeClient("https://agents.example", identity=me, bearer=token) as client:
        answer = await client.ask("2 + 2?", to="did:web:agents.example")

    Attributes:
        identity: who asks.
        keys: finds the keys of the agents that are asked.
    """

    def __init__(
        self,
        url: str,
        *,
        identity: Identity,
        keys: PeerKeys | None = None,
        bearer: str | None = None,
        client_certificate: ClientCertificate | None = None,
        trust: Path | None = None,
        binding: Binding = "h2",
        patience: Patience = DEFAULT_PATIENCE,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """Prepare to ask; the connection is made by the first call.

        Args:
            url: of the server: https://HOST or https://HOST:PORT; for gRPC its own port.
            identity: who asks, and signs.
            keys: finds the keys of the agents that are asked; by their DID documents if it is not given.
            bearer: an OAuth token or API key that the server knows the identity by.
            client_certificate: in its place, or besides; HTTP/3 takes none.
            trust: a PEM file with authorities of the server's certificate besides the system's.
            binding: how to talk to it.
            patience: with a server that is busy or away.
            clock: the time for `ts`.

        Raises:
            InvalidInput: the URL is none of a server, or a file cannot be used.
        """
        self.identity = identity
        is_here = is_loopback_name(server_url(url).host)
        self.keys: PeerKeys = keys or AgentKeys(trust=trust, allow_private=is_here, clock=clock)
        self._directory = Directory(self.keys, trust=trusting(trust, "the authorities to trust"), allow_private=is_here)
        self._url, self._binding = url, binding
        self._patience = patience
        self._clock = clock
        self._connection: EnvelopeConnection = connect(
            binding, url, trust=Trust(trust, client_certificate), bearer=bearer, patience=patience
        )

    async def __aenter__(self) -> EnvelopeClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connection. Exchanges go on at the other side."""
        await self._connection.close()

    def sign(self, intent: Intent | str, content: str | bytes, *, to: str, **members: Unpack[Members]) -> Envelope:
        """An envelope of this identity, ready to be delivered.

        Args:
            intent: what it is for.
            content: text as it is, or bytes.
            to: the DID of the agent that it is for.
            members: what else it has; see `Members`.

        Raises:
            InvalidInput: there is no such intent.
            UAMPError: 4.00: something cannot stand in an envelope.
        """
        return signed_envelope(self.identity, self._clock(), intent, content, to=to, **members)

    async def send(self, intent: Intent | str, content: str | bytes, *, to: str, **members: Unpack[Members]) -> Sent:
        """Sign an envelope and deliver it; see `sign` and `deliver`."""
        return await self.deliver(self.sign(intent, content, to=to, **members))

    async def deliver(self, envelope: Envelope) -> Sent:
        """Deliver a signed envelope, again and again until the other side says that it has it.

        Args:
            envelope: of `sign`, or one of an earlier process: to deliver the same one again is harmless.

        Raises:
            ConnectionBroken: no answer came for as long as patience lasts.
            UnsignedError: the other side refuses it, or is busy for longer than patience lasts.
        """
        pause = self._patience.pause
        busy, broken = Tries(self._patience.busy, pause), Tries(self._patience.broken, pause)
        while True:
            try:
                delivered = await self._connection.deliver(envelope)
            except ConnectionBroken:
                if not await broken.wait():
                    raise
            except UnsignedError as error:
                if not error.retryable or not await busy.wait(error.retry_after):
                    raise
            else:
                return Sent(envelope, delivered.stream_id, delivered.location)

    def consumer(
        self,
        sent: Sent,
        *,
        already: Sequence[Delta] = (),
        before_resume: Callable[[], Awaitable[None]] | None = None,
    ) -> Consumer:
        """Prepare to read the stream that an envelope opened; see `Consumer`."""

        async def acknowledge(seq: int) -> None:
            await self._acknowledge(sent, seq)

        return Consumer(
            self._connection,
            sent,
            keys=self.keys,
            acknowledge=acknowledge,
            patience=self._patience,
            already=already,
            before_resume=before_resume,
        )

    def stream(self, sent: Sent) -> AsyncGenerator[Delta, None]:
        """The frames of the stream that an envelope opened, the terminal one as the last; see `Consumer.frames`."""
        return self.consumer(sent).frames()

    async def ask(self, content: str | bytes, *, to: str, **members: Unpack[Members]) -> Answer:
        """Ask an agent and wait for its answer; arguments as of `sign`.

        Raises:
            ConnectionBroken: the other side was away for longer than patience lasts.
            RunCancelled: the exchange was cancelled.
            UAMPError: it was refused, or the agent failed, or what came was changed on the way.
        """
        return await self.answer(await self.send(Intent.ASK, content, to=to, **members))

    async def answer(self, sent: Sent) -> Answer:
        """Wait for the answer of an envelope that was sent; see `ask`."""
        consumer, collector = self.consumer(sent), AnswerCollector()
        terminal = await _read(consumer, collector)
        return collector.answer(terminal, is_signed=consumer.is_signed)

    async def propose(self, content: str | bytes, *, to: str, **members: Unpack[Members]) -> Decision:
        """Propose something to an agent and wait for its signed decision; arguments as of `sign`.

        Raises:
            RunCancelled: the proposal was withdrawn.
            UAMPError: as `ask` does; 4.01 too if the decision is not signed by the agent.
        """
        return await self.decision(await self.send(Intent.PROPOSE, content, to=to, **members))

    async def decision(self, sent: Sent) -> Decision:
        """Wait for the decision on a proposal that was sent; see `propose`."""
        consumer, collector = self.consumer(sent), AnswerCollector()
        terminal = await _read(consumer, collector)
        collector.answer(terminal, is_signed=consumer.is_signed)
        return await read_decision(terminal, sent, self.keys)

    async def cancel(self, sent: Sent, reason: str = "") -> None:
        """Withdraw what was sent. The stream ends with a frame that says so, unless it has ended before."""
        await self.send(Intent.CANCEL, reason, to=sent.peer, reply_to=sent.envelope.id_text, stream_id=sent.stream_id)

    async def manifest(self) -> Manifest:
        """The manifest of the server's default agent; see `Directory.manifest`."""
        return await self._directory.manifest(self._http_url())

    async def hub(self) -> HubView:
        """The server's hub, with what is below it; see `Directory.hub`."""
        return await self._directory.hub(self._http_url())

    def _http_url(self) -> str:
        if self._binding == "grpc":
            raise InvalidInput("manifests and hubs are at the server's HTTPS port, not at that of gRPC")
        return self._url

    async def _acknowledge(self, sent: Sent, seq: int) -> None:
        stream_id = sent.stream_id or ""
        if self._connection.carries_acks:
            await self._connection.acknowledge(stream_id, seq)
            return
        body = ack_body(seq)
        await self.send(
            Intent.PROGRESS,
            str(body["content"]),
            to=sent.peer,
            type=str(body["type"]),
            reply_to=sent.envelope.id_text,
            stream_id=stream_id,
        )


async def _read(consumer: Consumer, collector: AnswerCollector) -> Delta:
    """Read a stream to its end; its terminal frame."""
    last: Delta | None = None
    async with aclosing(consumer.frames()) as frames:
        async for last in frames:
            collector.add(last)
    if last is None:  # frames() ends after a terminal frame or raises
        raise ConnectionBroken("the stream had no frames")
    return last
