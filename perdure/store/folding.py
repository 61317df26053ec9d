"""The deltas of ended runs, folded: one event for each content block in place of the many that brought it.

A folded event has the last number of its range, says the range in `folded`, and holds what its deltas added. It says as
well how much each of them added, so that whoever has had some of them is given the rest. Numbers are missing from the log
only inside such ranges; events that came in between keep theirs.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import asyncpg

from perdure.store.database import Database
from perdure.store.events import Event, read_events
from perdure.store.json_text import escaped_json
from perdure.store.sealing import Seal
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, encode_base64
from perdure.upp.stream import StreamEventType

TEXTS: dict[str, str] = {
    StreamEventType.TEXT_DELTA: "text",
    StreamEventType.REASONING_DELTA: "text",
    StreamEventType.OBJECT_DELTA: "text",
    StreamEventType.TOOL_CALL_DELTA: "argumentsJson",
}
"""Of the deltas that add text: the field that has it."""

_MEDIA = (StreamEventType.IMAGE_DELTA, StreamEventType.AUDIO_DELTA, StreamEventType.VIDEO_DELTA)
_RESET = "message.reset"
_READ = (*TEXTS, *_MEDIA, _RESET)
_MOST_BYTES = 128 * 1024
"""A longer block is folded into several events, so that none is too large for a frame."""

_RUNS_AT_ONCE = 20
_FOLDS_AT_ONCE = 100
_DUE = """
select r.tenant_id, r.session_id, r.id, r.first_seq, r.last_seq from perdure.runs r
  join perdure.session_heads h on h.tenant_id = r.tenant_id and h.session_id = r.session_id and not h.deleting
 where not r.folded and r.ended_at is not null and r.ended_at <= clock_timestamp() - $1::interval
   and r.last_seq is not null
 order by r.ended_at limit $2
"""
_LOCK = """
select r.folded from perdure.session_heads h
  join perdure.runs r on r.tenant_id = h.tenant_id and r.session_id = h.session_id and r.id = $3
 where h.tenant_id = $1 and h.session_id = $2 and not h.deleting for update of h, r skip locked
"""
_REPLACE = """
update perdure.events e set data = folded.data
  from unnest($3::bigint[], $4::json[]) as folded (seq, data)
 where e.tenant_id = $1 and e.session_id = $2 and e.seq = folded.seq
"""
_REMOVE = "delete from perdure.events where tenant_id = $1 and session_id = $2 and seq = any($3::bigint[])"
_NOTHING = """
with held as (
  select r.tenant_id, r.session_id, r.id from perdure.runs r
    join perdure.session_heads h on h.tenant_id = r.tenant_id and h.session_id = r.session_id and not h.deleting
   where r.tenant_id = $1 and r.session_id = $2 and r.id = $3 for update of r skip locked)
update perdure.runs r set folded = true from held
 where r.tenant_id = held.tenant_id and r.session_id = held.session_id and r.id = held.id returning r.folded
"""
"""Of a run whose blocks came in one delta each: there is nothing to hold the session for."""
_FOLDED = "update perdure.runs set folded = true where tenant_id = $1 and session_id = $2 and id = $3"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run whose deltas are to be folded, and the range of the log that its events are in."""

    key: SessionKey
    id: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class Fold:
    """One event for many.

    Attributes:
        seq: of the event that stays, the last.
        data: its data from now on.
        removed: numbers of the events that it stands for besides itself.
    """

    seq: int
    data: JSONObject
    removed: list[int]


async def find_unfolded(database: Database, *, after: timedelta, limit: int = _RUNS_AT_ONCE) -> list[EndedRun]:
    """Runs that ended longer than `after` ago and are not folded yet, those that ended first first, at most `limit`."""
    async with database.driver() as connection:
        rows = await connection.fetch(_DUE, after, limit)
    return [
        EndedRun(SessionKey(row["tenant_id"], row["session_id"]), row["id"], row["first_seq"], row["last_seq"])
        for row in rows
    ]


async def fold_run(database: Database, run: EndedRun) -> bool:
    """Fold the deltas of a run that has ended, in one transaction; done again it does nothing.

    Nothing is added to such a run's events any more, so they are read before the session is held: what comes next in
    it waits for the writes only.

    Returns:
        Whether the run is folded; False if its session is busy, or gone.
    """
    folder, after = Folder(run.id), run.first_seq - 1
    while page := await read_events(database, run.key, after=after, types=_READ, upto=run.last_seq):
        for event in page:
            folder.add(event)
        after = page[-1].seq
    folds = folder.finish()
    if not folds:
        async with database.driver() as connection:
            return await connection.fetchval(_NOTHING, run.key.tenant, run.key.session, run.id) is not None
    async with database.driver() as connection, connection.transaction():
        folded = await connection.fetchval(_LOCK, run.key.tenant, run.key.session, run.id)
        if folded is None:
            return False
        if not folded:
            await _write(connection, run, folds, database.seal(run.key))
    return True


async def _write(
    connection: asyncpg.Connection[asyncpg.Record], run: EndedRun, folds: Sequence[Fold], seal: Seal
) -> None:
    owner = (run.key.tenant, run.key.session)
    for start in range(0, len(folds), _FOLDS_AT_ONCE):
        some = folds[start : start + _FOLDS_AT_ONCE]
        texts = [escaped_json(seal.data(fold.data)) for fold in some]
        await connection.execute(_REPLACE, *owner, [fold.seq for fold in some], texts)
        await connection.execute(_REMOVE, *owner, [seq for fold in some for seq in fold.removed])
    await connection.execute(_FOLDED, *owner, run.id)


@dataclass(frozen=True, slots=True)
class Piece:
    """One delta of a content block: its number, and how much it added, in characters of text or bytes of media."""

    seq: int
    length: int


def pieces_of(event: Event) -> list[Piece]:
    """The deltas that a folded event stands for, in order; none if that was folded before their lengths were kept."""
    folded = cast("dict[str, Any]", event.data.get("folded") or {})
    lengths = folded.get("lengths", [])
    seqs = folded.get("seqs") or range(folded.get("from", 0), event.seq + 1)
    return [Piece(seq, length) for seq, length in zip(seqs, lengths, strict=False)]


def length_of(kind: str, content: str) -> int:
    """How much a delta of a type adds by its content: characters of text, bytes of media."""
    return len(content) if kind in TEXTS else len(b64decode(content))


@dataclass(slots=True)
class _Block:
    """What came of one content block so far."""

    first: Event
    last: Event
    seqs: list[int] = field(default_factory=list[int])
    parts: list[str] = field(default_factory=list[str])
    pieces: list[Piece] = field(default_factory=list[Piece])
    size: int = 0

    def takes(self, event: Event) -> bool:
        """Whether one event can stand for this one too."""
        same = _delta(self.first).get("toolCallId") == _delta(event).get("toolCallId")
        return same and self.size + event.size <= _MOST_BYTES

    def add(self, event: Event) -> None:
        self.last = event
        self.seqs.append(event.seq)
        part = str(_delta(event).get(TEXTS.get(event.type, "data")) or "")
        self.parts.append(part)
        self.pieces += pieces_of(event) or [Piece(event.seq, length_of(event.type, part))]
        self.size += event.size

    def fold(self) -> Fold:
        delta = {**_delta(self.first)}
        name = TEXTS.get(self.last.type)
        if name is None:
            delta["data"] = encode_base64(b"".join(b64decode(part) for part in self.parts))
        else:
            delta[name] = "".join(self.parts)
        first = self.first.folded_from or self.first.seq
        span: JSONObject = {"from": first, "to": self.last.seq, "lengths": [piece.length for piece in self.pieces]}
        if len(self.pieces) <= self.last.seq - first:
            span["seqs"] = [piece.seq for piece in self.pieces]
        return Fold(self.last.seq, {**self.last.data, "delta": delta, "folded": span}, self.seqs[:-1])


class Folder:
    """Gathers the deltas of a run by the content block that they belong to. Events are added in order."""

    def __init__(self, run: str) -> None:
        """Gather for a run; events of others are passed over."""
        self._run = run
        self._open: dict[tuple[str, int, str, int | None], _Block] = {}
        self._folds: list[Fold] = []

    def add(self, event: Event) -> None:
        """Take in the next event."""
        if event.run != self._run:
            return
        data = cast("dict[str, Any]", event.data)
        if event.type == _RESET:  # what the answer's next try says stands for itself
            self._close([place for place in self._open if place[0] == data["message"]])
        if event.source != "upp" or event.type not in (*TEXTS, *_MEDIA):
            return
        place = (str(data["message"]), int(data["index"]), event.type, event.attempt)
        if place in self._open and not self._open[place].takes(event):
            self._close([place])
        self._open.setdefault(place, _Block(event, event)).add(event)

    def finish(self) -> list[Fold]:
        """What to fold; a delta that is alone stays as it is."""
        self._close(list(self._open))
        return self._folds

    def _close(self, places: Sequence[tuple[str, int, str, int | None]]) -> None:
        for place in places:
            block = self._open.pop(place)
            if len(block.seqs) > 1:
                self._folds.append(block.fold())


def _delta(event: Event) -> dict[str, Any]:
    return cast("dict[str, Any]", event.data["delta"])
