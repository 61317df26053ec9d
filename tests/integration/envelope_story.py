"""Envelopes between one agent of ours and its peers, for tests of the store. Signatures are not looked at here."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select

from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.envelope import read_envelope
from perdure.store import opening
from perdure.store.database import Database
from perdure.store.envelopes.exchanges import find_exchange
from perdure.store.envelopes.frames import save_frames
from perdure.store.envelopes.keeping import keep_envelope
from perdure.store.envelopes.rows import EnvelopeRow, ExchangeRow, Kept, NewEnvelope, envelope_row
from perdure.store.envelopes.settling import hold_exchange
from perdure.store.opening import Opening
from perdure.store.tables import envelopes
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey

OWN = "did:web:here.example"
PEER = "did:web:peer.example"
NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def an_id() -> str:
    """An envelope's id as senders write it."""
    return f"urn:uuid:{uuid.uuid4()}"


@dataclass
class EnvelopeStory:
    """A tenant of its own, and what its agent is sent."""

    database: Database
    tenant: str = field(default_factory=lambda: f"tenant-{uuid.uuid4().hex}")
    now: datetime = NOW

    def new(
        self, intent: str, text: str = "hello", *, sender: str = PEER, own: str = OWN, **members: Any
    ) -> NewEnvelope:
        """An envelope; `stream_id` may be a member of an ask, or is drawn."""
        value = {
            "id": members.pop("id", None) or an_id(), "ts": "2031-05-06T07:08:09Z", "from": sender, "to": [own],
            "intent": intent, "body": {"type": "text/plain", "content": text}, "sig": "eyJhbGciOiJFUzI1NiJ9..AAAA",
            **members,
        }  # fmt: skip
        raw = json.dumps(value).encode()
        envelope = read_envelope(raw)
        stream = (envelope.stream_id or uuid.uuid4().hex) if envelope.intent.opens else None
        return NewEnvelope(self.tenant, own, envelope, raw, principal=sender, stream_id=stream)

    async def keep(self, new: NewEnvelope, *, max_open: int = 1000, rate: int | None = None) -> Kept:
        """Keep it now."""
        return await keep_envelope(self.database, new, now=self.now, max_open=max_open, rate_per_hour=rate)

    async def opened(self, intent: str = "ask", **members: Any) -> ExchangeRow:
        """An exchange that an envelope has just opened."""
        row = (await self.keep(self.new(intent, **members))).exchange
        assert row is not None
        return row

    async def row(self, row: ExchangeRow) -> ExchangeRow:
        """It, as it is now."""
        found = await find_exchange(self.database, self.tenant, row.id)
        assert found is not None
        return found

    async def framed(self, row: ExchangeRow, *types: str, text: str = "word") -> ExchangeRow:
        """It, with its next frames of these types."""
        async with self.database.transaction(self.tenant) as connection:
            held = await hold_exchange(connection, self.tenant, row.id)
            assert held is not None
            return await save_frames(connection, held, frames(held, *types, text=text), log_seq=held.log_seq + 1)

    async def session(self) -> str:
        """A session of Perdure's."""
        key = SessionKey(self.tenant, new_id())
        await opening.open_session(self.database, key, Opening(agent="teller", agent_id="agent-1"))
        return key.session

    async def pending(self, session: str) -> list[EnvelopeRow]:
        """Informs of a session that nothing has taken, oldest first."""
        kept: Any = envelopes.c
        query = select(envelopes).where(
            kept.tenant_id == self.tenant, kept.session_id == session, kept.intent.in_(["inform", "notify"]),
            kept.joined_by.is_(None),
        )  # fmt: skip
        async with self.database.transaction(self.tenant) as connection:
            rows = (await connection.execute(query.order_by(kept.at, kept.id))).all()
            return [envelope_row(row) for row in rows]

    def later(self, passed: timedelta) -> EnvelopeStory:
        """The same, some time later."""
        return replace(self, now=self.now + passed)

    async def count(self, table: str) -> int:
        """Rows of the tenant."""
        async with self.database.driver() as connection:
            return int(
                await connection.fetchval(f"select count(*) from perdure.{table} where tenant_id = $1", self.tenant)
            )


def frames(row: ExchangeRow, *types: str, text: str = "word") -> list[Delta]:
    """The next frames of an exchange."""
    return [
        Delta(row.next_seq + n, row.stream_id, NOW, DeltaType(kind), {"text": f"{text} {row.next_seq + n}"})
        for n, kind in enumerate(types)
    ]
