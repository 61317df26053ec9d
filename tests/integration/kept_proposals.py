"""A proposal in the store, for tests of what is shown of it and of who may answer it; no door has taken it."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.protocols.uamp_envelope.envelope import read_envelope
from perdure.store.database import Database
from perdure.store.envelopes.keeping import keep_envelope
from perdure.store.envelopes.rows import NewEnvelope
from perdure.uap.ids import new_id
from tests.conformance.envelope_peer import Peer, wire

OWN = "did:web:localhost%3A8700"


async def keep_proposal(database: Database, tenant: str, text: str) -> str:
    """Have an agent elsewhere propose something to the default agent; the proposal's id."""
    raw = wire(Peer("did:web:ann.example", to=OWN).signed(text, intent="propose"))
    said = {"type": "text/plain", "text": text}
    new = NewEnvelope(tenant, OWN, read_envelope(raw), raw, "ann", stream_id=new_id(), proposal={**said})
    kept = await keep_envelope(database, new, now=datetime.now(UTC), max_open=1000, rate_per_hour=None)
    assert kept.exchange is not None
    return kept.exchange.id
