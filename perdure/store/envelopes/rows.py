"""What the rows of envelopes hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row

from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.exchange import Exchange
from perdure.protocols.uamp_envelope.identifier import read_id
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class NewEnvelope:
    """An envelope that has passed all that can be checked without the store.

    Attributes:
        own: the DID of ours that it is for.
        envelope: verified.
        raw: as received, signature and all.
        principal: who brought it, for records.
        stream_id: of the stream that it opens: its own, or one made for it; None if its intent opens none.
        proposal: what a propose says, `{"type", "text"}`; None for other intents.
        error: the error object that an `error` brings; None likewise.
    """

    tenant: str
    own: str
    envelope: Envelope
    raw: bytes = field(repr=False)
    principal: str
    stream_id: str | None = None
    proposal: JSONObject | None = field(default=None, repr=False)
    error: JSONObject | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Its id as rows have it: a UUID in lower case."""
        return str(self.envelope.id)

    @property
    def exchange_id(self) -> str:
        """The id of the exchange that it opens, if its intent does."""
        return exchange_id(self.own, self.envelope.sender, self.id)


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """An exchange.

    Attributes:
        id: derived from own DID, sender and the opening envelope's id.
        own: the DID of ours that it is with.
        sender: who opened it; who may read its stream.
        worker: who was asked: the same as `own`.
        envelope: the opening envelope's id as its sender wrote it.
        principal: who brought that, for records.
        session: what it runs or follows; None until that is known.
        run: what answers it; None likewise, and for a subscription.
        window: how many frames may be sent without an ACK.
        next_seq: the number of the frame that is made next.
        sent: the greatest number that a consumer was given; -1 before the first.
        acked: the greatest of which it said so; -1 before the first.
        log_seq: up to which event of the session's log frames were made; and
        log_place: how much of what comes next in it.
        is_over: whether the terminal frame is made.
        error: the error object, if an error ended it.
        proposal: what a propose says, `{"type", "text"}`.
        ended_at: when it came to a terminal state.
    """

    tenant: str
    id: str
    own: str
    sender: str
    worker: str
    envelope: str
    intent: Intent
    stream_id: str
    principal: str
    session: str | None
    run: str | None
    state: State
    window: int
    next_seq: int
    sent: int
    acked: int
    log_seq: int
    log_place: JSONObject = field(repr=False)
    is_over: bool
    error: JSONObject | None = field(repr=False)
    proposal: JSONObject | None = field(repr=False)
    opened_at: datetime
    ended_at: datetime | None

    @property
    def key(self) -> SessionKey:
        """What it is announced as, and what its content is sealed for."""
        return SessionKey(self.tenant, self.id)

    @property
    def exchange(self) -> Exchange:
        """What the protocol's rules look at."""
        return Exchange(
            id=read_id(self.envelope),
            intent=self.intent,
            sender=self.sender,
            worker=self.worker,
            stream_id=self.stream_id,
            state=self.state,
        )


@dataclass(frozen=True, slots=True)
class EnvelopeRow:
    """An envelope that was accepted.

    Attributes:
        id: a UUID in lower case.
        raw: as received; empty once its session is deleted.
        exchange: the id of the exchange that it opened or is about, if there is one.
        session: the session that it has to do with, if that is known.
        at: when it came.
    """

    tenant: str
    own: str
    sender: str
    id: str
    intent: Intent
    raw: bytes = field(repr=False)
    exchange: str | None
    session: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of an envelope.

    Attributes:
        repeated: it was there already, and this is what it was answered then.
        exchange: the one that it opened, or is about, as it is now; None if there is none, or none any more.
        session: the session that it has to do with, if that is known.
        answer: `{"stream_id", "location"}` of one that opens a stream; empty otherwise.
    """

    repeated: bool
    exchange: ExchangeRow | None
    session: str | None
    answer: JSONObject


def exchange_id(own: str, sender: str, envelope: str) -> str:
    """The id of the exchange that an envelope opens.

    Args:
        own: the DID of ours that the envelope is for.
        sender: its `from`.
        envelope: its id as a UUID in lower case.
    """
    return derive_id("uamp exchange", own, sender, envelope)


def exchange_row(row: Row[Any]) -> ExchangeRow:
    """An exchange as it was read."""
    return ExchangeRow(
        tenant=row.tenant_id, id=row.id, own=row.own, sender=row.sender, worker=row.worker, envelope=row.envelope,
        intent=Intent(row.intent), stream_id=row.stream_id, principal=row.principal, session=row.session_id,
        run=row.run_id, state=State(row.state), window=row.delta_window, next_seq=row.next_seq, sent=row.sent,
        acked=row.acked, log_seq=row.log_seq, log_place=cast(JSONObject, row.log_place or {}), is_over=row.is_over, error=cast("JSONObject | None", row.error),
        proposal=cast("JSONObject | None", row.proposal), opened_at=row.opened_at,
        ended_at=row.ended_at,
    )  # fmt: skip


def envelope_row(row: Row[Any]) -> EnvelopeRow:
    """An envelope as it was read."""
    return EnvelopeRow(
        tenant=row.tenant_id, own=row.own, sender=row.sender, id=row.id, intent=Intent(row.intent),
        raw=row.raw or b"", exchange=row.exchange, session=row.session_id, at=row.at,
    )  # fmt: skip
