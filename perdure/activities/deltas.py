"""The deltas of one answer on their way to the event log: the first at once, then a batch each 10 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from temporalio import activity

from perdure.activities.contracts import GenerateInput
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.services import Services
from perdure.store.answers import Writer, append_deltas
from perdure.store.database import keep_trying
from perdure.testing.crash import crash_point
from perdure.uap.events import run_event, upp_event
from perdure.uap.ids import new_id
from perdure.upp.json_value import JSONObject
from perdure.upp.redacted_stream import RedactedStream
from perdure.upp.redaction import known_secrets
from perdure.upp.stream import StreamEvent, StreamEventType

_PERIOD_SECONDS = 0.01


class DeltaLog:
    """Deltas of one activity attempt; tries within it follow each other, each from the beginning of the answer."""

    def __init__(
        self, services: Services, writer: Writer, call: GenerateInput, *, attempt: int, again: bool, held: bool
    ) -> None:
        """Log for the answer of `call`.

        Args:
            services: the worker's.
            writer: who writes.
            call: the model call.
            attempt: the activity's.
            again: an attempt or execution before this one may have logged deltas of the same answer.
            held: nobody may see the answer before it is checked, so nothing of it is logged or kept.
        """
        self._services = services
        self._writer = writer
        self._call = call
        self._attempt = attempt
        self._token = f"{writer.execution}.{attempt}" if not activity.info().is_local else new_id()
        self._reset = again
        self._written = 0
        self._waiting: list[JSONObject] = []
        self._pending: list[JSONObject] = list(call.pending)
        self._text: list[str] = []
        self._shown = RedactedStream(known_secrets)
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._held = held
        if again and not held:
            self._waiting.append(self._start_over())

    @property
    def text(self) -> str:
        """The text of the try in hand, as far as it came."""
        return "".join(self._text)

    def add(self, event: StreamEvent) -> None:
        """Log an event soon; returns at once. Secrets are taken out, also where one is split over events."""
        if self._held:
            return
        for shown in self._shown.take(event):
            self._add(shown)

    def cut_off(self) -> None:
        """The answer ends here, in the middle: what may be the beginning of a secret is not told."""
        self._shown = RedactedStream(known_secrets)

    def _add(self, event: StreamEvent) -> None:
        if event.type is StreamEventType.TEXT_DELTA and event.delta.text:
            self._text.append(event.delta.text)
        entry = upp_event(event, step=self._call.step, attempt=self._attempt, message=self._call.message)
        self._waiting.append(entry)
        self._some.set()
        if self._task is None:
            self._task = asyncio.create_task(self._write_batches(), name="deltas")

    def restart(self) -> None:
        """The try failed; what it logged counts no more."""
        if self._held:
            return
        self._text.clear()
        self._shown = RedactedStream(known_secrets)
        self._waiting.append(self._start_over())
        self._some.set()

    async def finish(self) -> tuple[list[JSONObject], list[JSONObject]]:
        """Stop writing.

        Returns:
            Events and pending records that were not written: the transaction that stores the answer takes them.
        """
        for shown in self._shown.rest():
            self._add(shown)
        if self._task is not None:
            task, self._task = self._task, None
            self._some.set()
            self._closing = True
            await task
        left, self._waiting = self._waiting, []
        return left, self._pending

    def stop(self) -> None:
        """Write no more, whether or not there is an answer; after `finish` it does nothing."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _write_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closing:
            await self._some.wait()
            self._some.clear()
            if self._closing:
                return
            batch, self._waiting = self._waiting, []
            begun = loop.time()
            await self._write(batch)
            took = loop.time() - begun
            if not self._closing:  # a database that is slow is left alone for as long as it took
                await asyncio.sleep(max(took, _PERIOD_SECONDS - took))

    async def _write(self, batch: Sequence[JSONObject]) -> None:
        if not batch:
            return

        async def write() -> str:
            return await append_deltas(
                self._services.database,
                self._writer,
                self._call.message,
                token=self._token,
                reset=self._reset,
                first=self._written,
                events=batch,
                pending=self._pending,
            )

        crash_point("deltas.storing")
        await keep_trying(write, deadline=STORE_PATIENCE)
        crash_point("deltas.stored")
        self._written += len(batch)
        self._pending = []
        self._services.announcer.changed(self._writer.key)

    def _start_over(self) -> JSONObject:
        detail: JSONObject = {"message": self._call.message, "attempt": self._attempt}
        return {**run_event("message.reset", detail), "p": self._call.step, "a": self._attempt}
