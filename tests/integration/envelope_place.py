"""A desk of envelopes without a transport: a real database of its own, Temporal, a worker process; peers sign by other code."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.runtime.connect import connect
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.capabilities import Capabilities
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.desk import DeskParts, EnvelopeDesk, EnvelopeRules, Receipt
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.envelopes.key_finder import KeyFinder
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.envelopes.signals import ExchangeSignals
from perdure.runtime.envelopes.sweep import EnvelopeSweep
from perdure.runtime.sessions import Sessions
from perdure.store.envelopes.exchanges import find_stream
from perdure.store.envelopes.rows import ExchangeRow
from tests.conformance.envelope_clock import AdjustableClock
from tests.conformance.envelope_peer import Envelope, Peer, wire
from tests.integration.stack import Stack

HOST = "desk.example"
DID = f"did:web:{HOST}"
APP = "tests.conformance.uamp_agents:app"

Frame = dict[str, Any]


@dataclass
class DeskPlace:
    """A desk, whom it talks to, and its clock."""

    sessions: Sessions
    desk: EnvelopeDesk
    sweep: EnvelopeSweep
    clock: AdjustableClock
    ann: Peer
    bob: Peer
    gates: Path
    _frames: dict[str, list[Frame]] = field(default_factory=dict[str, list[Frame]])

    async def send(self, envelope: Envelope | bytes, peer: Peer | None = None) -> Receipt:
        """Hand an envelope in, as its sender."""
        data = envelope if isinstance(envelope, bytes) else wire(envelope)
        return await self.desk.receive(data, caller(peer or self.ann))

    async def refused(self, envelope: Envelope | bytes, peer: Peer | None = None) -> str:
        """The code with which an envelope is refused."""
        try:
            await self.send(envelope, peer)
        except UAMPError as error:
            return error.code
        raise AssertionError("it was taken")

    async def frames(self, receipt: Receipt, peer: Peer | None = None) -> list[Frame]:
        """All deltas of a stream, each ACKed as it comes."""
        assert receipt.stream_id is not None
        who, found = caller(peer or self.ann), list[Frame]()
        stream = await self.desk.open_stream(receipt.stream_id, who, last_seq=None)
        async with asyncio.timeout(90), aclosing(stream.frames()) as frames:
            async for delta in frames:
                if delta is not None:
                    found.append(delta.to_json())
                    await self.desk.acknowledge(receipt.stream_id, who, delta.seq)
        return found

    async def answer(self, receipt: Receipt, peer: Peer | None = None) -> str:
        """The text that a stream ends with."""
        last = (await self.frames(receipt, peer))[-1]
        assert last["type"] == "done", last
        return last["payload"]["text"]

    async def row(self, receipt: Receipt, peer: Peer | None = None) -> ExchangeRow:
        """The exchange of a stream."""
        assert receipt.stream_id is not None
        did = (peer or self.ann).did
        found = await find_stream(self.sessions.database, self.sessions.tenant, receipt.stream_id, peer=did)
        assert found is not None
        return found

    def open_gate(self, name: str) -> None:
        """Have whoever waits at it go on."""
        (self.gates / name).touch()


def caller(peer: Peer) -> PeerCaller:
    """A peer as the transport knows it."""
    return PeerCaller(peer.did, peer.did)


@asynccontextmanager
async def desk_place(stack: Stack, url: str, gates: Path, **rules: Any) -> AsyncGenerator[DeskPlace]:
    """A desk over a database whose agents a worker serves."""
    clock = AdjustableClock()
    ann, bob = (Peer(f"did:web:{name}.example", to=DID, now=clock) for name in ("ann", "bob"))
    keys = stack.folder / f"desk-peers-{uuid.uuid4().hex}.json"
    keys.write_text(json.dumps({peer.did: {"keys": [peer.public]} for peer in (ann, bob)}))
    async with connect(temporal_address=stack.addresses.temporal, database_url=url) as sessions:
        parts = parts_of(sessions, keys, clock, **rules)
        try:
            yield DeskPlace(sessions, EnvelopeDesk(parts), EnvelopeSweep(parts), clock, ann, bob, gates)
        finally:
            await parts.signals.close()


def parts_of(sessions: Sessions, keys: Path, clock: AdjustableClock, **rules: Any) -> DeskParts:
    """What a desk is made of."""
    database, tenant = sessions.database, sessions.tenant
    own, signers = OwnAgents(database, tenant, HOST), OwnKeys(database, tenant, clock=clock)
    finder = KeyFinder(
        configured=ConfiguredKeys(keys, "PERDURE_UAMP_KEYS"),
        resolver=DIDResolver(),
        own=own,
        signers=signers,
        clock=clock,
    )
    issuers = ConfiguredKeys(None, "PERDURE_UAMP_TOKEN_ISSUERS")
    return DeskParts(
        sessions=sessions,
        own=own,
        keys=finder,
        capabilities=Capabilities(issuers, base_url=own.base_url, is_needed=False, clock=clock),
        signers=signers,
        signals=ExchangeSignals(database, tenant),
        rules=EnvelopeRules(**rules),
        clock=clock,
    )


def told(answer: str) -> list[tuple[str, str]]:
    """What a mirroring model was given: role and text of each message."""
    messages: list[dict[str, Any]] = json.loads(answer)["messages"]
    return [(str(message["role"]), "".join(item.get("text", "") for item in message["items"])) for message in messages]
