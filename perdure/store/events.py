"""The event log: read by number, announced after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from perdure.store.database import Database, is_away
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import format_timestamp

CHANNEL = "perdure_events"
END_MARK = "\t"
"""After the name of a session of which a run has ended; its name without it is told too. No id has it."""
_BATCH_SECONDS = 0.005
_CALM_SECONDS = 0.02
_NOTIFY_BYTES = 7000
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a session's event log. `seq` has no repeat within the session, and no gap but within a folded range.

    Attributes:
        size: bytes of the stored data.
        made: what has been made of it for viewers, by the form's name: one event is told to many.
    """

    session: str
    seq: int
    run: str | None
    step: int | None
    attempt: int | None
    source: str
    type: str
    data: JSONObject
    at: datetime
    size: int = field(default=0, compare=False)
    made: dict[str, bytes] = field(default_factory=dict[str, bytes], init=False, compare=False, repr=False)

    @property
    def folded_from(self) -> int | None:
        """The first number of the range that this event stands for, up to its own; None if it stands for itself.

        Its data is all that the deltas of that range added to one content block: who has read some of them replaces
        them by this event.
        """
        folded = cast("dict[str, Any] | None", self.data.get("folded"))
        return None if folded is None else folded["from"]

    def to_json(self) -> JSONObject:
        """The event as JSON, keys as attributes; `at` is ISO 8601."""
        return {
            "session": self.session,
            "seq": self.seq,
            "run": self.run,
            "step": self.step,
            "attempt": self.attempt,
            "source": self.source,
            "type": self.type,
            "data": self.data,
            "at": format_timestamp(self.at),
        }


_PAGE = """
select seq, run_id, step, attempt, source, type, data, at, size from (
    select *, octet_length(data::text) as size, sum(octet_length(data::text)) over (order by seq) as total
      from (select * from perdure.events where tenant_id = $1 and session_id = $2 and seq > $3
               and ($6::text[] is null or type = any($6)) and seq <= coalesce($7, 9223372036854775807)
             order by seq limit $4) as page
) as sized where total - size < $5 order by seq
"""


async def read_events(
    database: Database,
    key: SessionKey,
    *,
    after: int,
    limit: int = 1000,
    max_bytes: int = 4 * _MIB,
    types: Collection[str] | None = None,
    upto: int | None = None,
) -> list[Event]:
    """Events with a number above `after`, in order; none only if there are none.

    Args:
        database: the store.
        key: the session.
        after: a number.
        limit: how many at most.
        max_bytes: of their data, beyond which none is added.
        types: only these; None means all.
        upto: the last number that counts; None means that there is no last.
    """
    wanted = None if types is None else list(types)
    async with database.driver(key) as connection:
        rows = await connection.fetch(_PAGE, key.tenant, key.session, after, limit, max_bytes, wanted, upto)
    return [
        Event(
            key.session,
            row["seq"],
            row["run_id"],
            row["step"],
            row["attempt"],
            row["source"],
            row["type"],
            row["data"],
            row["at"],
            row["size"],
        )
        for row in rows
    ]


async def read_last_seqs(database: Database, keys: Collection[SessionKey]) -> dict[SessionKey, int]:
    """The last number that was given in each of these sessions; one that there is not, or no more, is left out."""
    sql = (
        "select h.tenant_id, h.session_id, h.last_seq from unnest($1::text[], $2::text[]) as asked (tenant, session) "
        "join perdure.session_heads h on h.tenant_id = asked.tenant and h.session_id = asked.session"
    )
    async with database.driver() as connection:
        rows = await connection.fetch(sql, [key.tenant for key in keys], [key.session for key in keys])
    return {SessionKey(row["tenant_id"], row["session_id"]): row["last_seq"] for row in rows}


class Announcer:
    """Tells listeners which sessions have new events, after the commit: at once, and what follows soon in batches.

    The end of a run waits for no batch, for somebody may wait for it; what comes with a stored answer or result waits a
    little longer than deltas, so that many runs at once are announced together.

    A notify inside the writing transaction would hold a lock of the whole database at commit. What is lost here costs a
    viewer its next poll, never an event.
    """

    def __init__(self, database: Database, channel: str = CHANNEL) -> None:
        """Announce through `database`, to those who listen to `channel`."""
        self._database = database
        self._channel = channel
        self._changed: dict[SessionKey, bool] = {}
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._soon = asyncio.Event()

    def changed(self, key: SessionKey, *, calm: bool = False) -> None:
        """Note that `key` has new events; returns at once.

        Args:
            key: the session.
            calm: they may wait for 20 ms behind what was announced before, else for 5 ms.
        """
        if not calm:
            self._soon.set()
        self._note(key, ended=False)

    def ended(self, key: SessionKey) -> None:
        """Note likewise that a run of `key` has ended, for those who wait for nothing else."""
        self._note(key, ended=True)

    def _note(self, key: SessionKey, *, ended: bool) -> None:
        self._changed[key] = ended or self._changed.get(key, False)
        if ended:
            self._hurry.set()
            self._soon.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="announce events")

    async def close(self) -> None:
        """Send what is left."""
        if self._task is not None:
            await self._task

    async def _send(self) -> None:
        while self._changed:
            changed, self._changed = self._changed, {}
            self._hurry.clear()
            self._soon.clear()
            try:
                for text in _texts(changed):
                    async with self._database.driver() as connection:
                        await connection.execute("select pg_notify($1, $2)", self._channel, text)
            except Exception as error:
                if not is_away(error):
                    raise
            await _until(self._hurry, _BATCH_SECONDS)
            await _until(self._soon, _CALM_SECONDS - _BATCH_SECONDS)


async def _until(event: asyncio.Event, seconds: float) -> None:
    if not event.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


def _texts(changed: Mapping[SessionKey, bool]) -> list[str]:
    texts: list[str] = []
    for name, ended in changed.items():
        line = f"{name.tenant}/{name.session}"
        line = f"{line}\n{line}{END_MARK}" if ended else line
        if texts and len(texts[-1]) + len(line) < _NOTIFY_BYTES:
            texts[-1] += "\n" + line
        else:
            texts.append(line)
    return texts
