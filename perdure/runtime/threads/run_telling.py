"""One run told as the AI SDK's UI message stream: its log and what it has stored, followed to its end or until it rests."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Collection
from typing import cast

from perdure.protocols.threadprotocol.live_calls import LiveCalls
from perdure.protocols.threadprotocol.live_stream import LiveStream, settled_by
from perdure.runtime.event_stream import EventStream
from perdure.runtime.threads.run_tail import RunTail
from perdure.runtime.unfolding import Unfolding
from perdure.store.database import Database
from perdure.store.events import Event, read_events, read_last_seqs
from perdure.store.payloads import read_payloads
from perdure.store.run_spans import RunSpan
from perdure.store.waits import read_wait
from perdure.uap.events import RUN_TERMINAL
from perdure.upp.json_value import JSONObject, loads

_MAY_REST = ("run.parked", "tool_execution_end")


class RunTelling:
    """Tells one run from its beginning, or what came after the client's answers.

    A run rests when only the client can go on: all its open calls wait for an approval or for a tool of the client's.
    Then the stream ends; the client answers and is told the rest by another one. What was answered long ago is no rest:
    who asks for the whole run is told it in one piece.
    """

    def __init__(self, database: Database, span: RunSpan, *, answered: Collection[str] = ()) -> None:
        """Tell a run.

        Args:
            database: where it is.
            span: of the run.
            answered: ids of waits that the client has answered: it has been told all that came before, up to where the
                run rested last. Empty to tell all.
        """
        self._database, self._span = database, span
        self._tail = RunTail(database, span.key, span.run)
        self._live = LiveStream(span.run, is_sequential=self._tail.is_sequential)
        self._unfolding = Unfolding()
        self._answered = frozenset(answered)
        self._silent = bool(answered)
        self._held: list[JSONObject] = []
        self._knows_ids = False
        self._rests = False

    @property
    def calls(self) -> LiveCalls:
        """The tool calls that were read of so far."""
        return self._live.calls

    async def read_all(self) -> list[frozenset[str]]:
        """Read what the log holds today, and tell nobody.

        Returns:
            Ids of the waits of each rest of the run, in order.
        """
        rests: list[frozenset[str]] = []
        key = self._span.key
        newest = (await read_last_seqs(self._database, [key])).get(key, 0)
        after = self._span.before
        while after < newest:
            page = await read_events(self._database, key, after=after)
            if not page:
                break
            for row in page:
                await self._read(row)
                waits = self._waits_at(row)
                if waits:
                    rests.append(frozenset(waits))
            after = page[-1].seq
        return rests

    async def chunks(self, stream: EventStream) -> AsyncGenerator[list[JSONObject]]:
        """The chunks as they come, several at once where they are there; ends when the run has ended, or rests.

        Raises:
            UnknownSession, SessionGone, ServerError: as `EventStream.follow_pages` does.
        """
        yield self._live.begin()
        async with contextlib.aclosing(stream.follow_pages(self._span.key, after=self._span.before)) as pages:
            async for page in pages:
                told: list[JSONObject] = []
                for row in page:
                    told += await self._tell(row)
                    if self._live.is_over or self._rests:
                        break
                if told:
                    yield told
                if self._live.is_over or self._rests:
                    return

    async def _tell(self, row: Event) -> list[JSONObject]:
        """The chunks of a row that are to be sent."""
        chunks = await self._read(row)
        if not self._silent:
            return [*chunks, *await self._rest(row)]
        if row.type == "wait.answered" and row.data.get("wait") in self._answered:
            self._silent = False
            return [*self._held, *chunks]
        self._held += chunks
        if self._live.is_over:
            return self._held
        if self._waits_at(row):
            self._held.clear()
        return []

    def _waits_at(self, row: Event) -> list[str]:
        """The waits that the client is to answer, if the run rests from a row on."""
        may_rest = row.run == self._span.run and row.type in _MAY_REST
        return [str(call.wait) for call in self._live.calls.resting()] if may_rest else []

    async def _rest(self, row: Event) -> list[JSONObject]:
        """The last chunks, if the run rests now and nobody has answered any of its calls."""
        waits = self._waits_at(row)
        if not waits:
            return []
        for wait in waits:
            if (await read_wait(self._database, self._span.key.tenant, wait)).answered_at is not None:
                return []
        self._rests = True
        return self._live.rest()

    async def _read(self, row: Event) -> list[JSONObject]:
        """The chunks of a row, with those of what was stored with it."""
        if row.run != self._span.run:
            return []
        row = await self._whole(self._unfolding.new_in(row))
        chunks = self._live.take(row)
        is_last = row.type in RUN_TERMINAL
        stored = settled_by(row)
        if is_last or stored is not None:
            settled = await self._tail.new(None if is_last else stored)
            if not self._knows_ids:
                self._knows_ids = True
                self._live.know_ids(self._tail.used_before)
            for item in settled:
                chunks += self._live.settle(item.stored.id, item.stored.message, item.actions)
        return [*chunks, *self._live.end(row)] if is_last else chunks

    async def _whole(self, row: Event) -> Event:
        cut = cast("dict[str, str] | None", row.data.get("cut"))
        if row.source != "upp" or cut is None:
            return row
        found = await read_payloads(self._database, self._span.key, [cut["sha256"]])
        delta = {**cast(JSONObject, row.data["delta"]), "result": loads(found[cut["sha256"]])}
        return dataclasses.replace(row, data={**row.data, "delta": delta})
