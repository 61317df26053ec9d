"""Records that ride on the next activity, and notes that do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from perdure.activities.contracts import RecordInput, SessionInput
from perdure.errors import SessionGone
from perdure.workflows import calls

Record = dict[str, Any]


class Outbox:
    """Pending records of the active run. What an activity took along is pending again if that activity failed."""

    def __init__(self, pending: Sequence[Record] = ()) -> None:
        """Go on with what the execution before left."""
        self._pending: list[Record] = list(pending)

    def add(self, record: Record) -> None:
        """Let a record ride on the next activity."""
        self._pending.append(record)

    def take(self) -> list[Record]:
        """Everything pending, for an activity to take along."""
        taken, self._pending = self._pending, []
        return taken

    def put_back(self, taken: Sequence[Record]) -> None:
        """The activity that took these failed; they may or may not be written, and writing them again is harmless."""
        self._pending = [*taken, *self._pending]

    @property
    def pending(self) -> list[Record]:
        """What has not been written, to be carried on."""
        return list(self._pending)


class Recorder:
    """Notes in the event log and flags of the session, one after the other, each written once."""

    def __init__(self, start: SessionInput, outbox: Outbox) -> None:
        """Write for the session of `start`; pending records of `outbox` go along."""
        self._start = start
        self._outbox = outbox
        self._lock = asyncio.Lock()

    @property
    def busy(self) -> bool:
        """Whether a note is being written."""
        return self._lock.locked()

    async def note(
        self,
        name: str,
        *events: Record,
        run: str | None = None,
        paused: bool | None = None,
        status: str | None = None,
        wait: Record | None = None,
    ) -> str | None:
        """Write now; returns when it is committed, with the id of the wait that was asked for.

        Args:
            name: the same for a repetition of this note, and for no other of this execution.
            events: for the log.
            run: the active run, if there is one; its pending records are written too.
            paused: the session's flag from now on.
            status: the run's status from now on.
            wait: a wait to open.

        Raises:
            SessionGone: the session is being deleted.
            asyncio.CancelledError: the run has ended.
        """
        async with self._lock:
            taken = self._outbox.take() if run is not None else []
            try:
                done = await calls.record(
                    RecordInput(
                        tenant=self._start.tenant,
                        session=self._start.session,
                        note=name,
                        run=run,
                        pending=taken,
                        events=list(events),
                        paused=paused,
                        status=status,
                        wait=wait,
                    )
                )
            except BaseException:
                self._outbox.put_back(taken)
                raise
        if done.kind == "gone":
            raise SessionGone(f"session {self._start.session} is being deleted")
        if done.kind == "late":  # the run has ended without us: nothing of it goes on here
            raise asyncio.CancelledError
        return done.wait
