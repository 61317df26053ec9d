"""Single inserts into the floor's tables. Imports nothing of Perdure, for it is a part of the floor's worker."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import asyncpg

from benchmarks.floor_events import USAGE, Event, compact, step_event

_TENANT = "default"
COLUMNS = {
    "sessions": "id, agent, agent_id, status, metadata, current_node, runs, usage, created_at, updated_at",
    "session_heads": "session_id, active_run, touched_at",
    "thread_nodes": "session_id, id, name, thread_id, metadata, created_at",
    "inputs": "session_id, ordinal, key, opens_session, body_sha256, kind, message_id, message, message_sha, policy, "
    "run_id, state, created_at",
    "runs": "session_id, id, ordinal, status, spec, node_id, start_position, step, usage, temporal_run_id, first_seq, "
    "started_at, ended_at",
    "messages": "session_id, id, node_id, position, run_id, step, type, body, sha256, usage, stop",
    "tool_calls": "session_id, message_id, index, run_id, step, call_id, tool, args_sha256, effect, state, attempt, "
    "is_error, result_sha256, result_bytes, duration_ms, results_id",
    "payloads": "session_id, sha256, bytes",
    "checkpoints": "session_id, id, run_id, node_id, step, position, at, record, temporal_run_id",
    "events": "session_id, run_id, step, attempt, source, type, data, at",
}


def _insert(table: str) -> str:
    columns = COLUMNS[table]
    places = ", ".join(f"${n + 2}" for n in range(columns.count(",") + 1))
    return f"insert into floor.{table} (tenant_id, {columns}) values ($1, {places})"


_INSERT = {table: _insert(table) for table in COLUMNS}
_INSERT["payloads"] += " on conflict do nothing"  # a session keeps equal results once


@dataclass(frozen=True)
class Place:
    """A step of a session, and the ids of what it stores, derived from it.

    Attributes:
        workflow_id: of the session's workflow; the session's id with the floor's name before it.
        turn: from 0.
        step: of the session, from 1.
    """

    workflow_id: str
    turn: int
    step: int

    @property
    def session(self) -> str:
        """The session's id; its thread has the same."""
        return self.workflow_id.removeprefix("floor-")

    @property
    def run(self) -> str:
        """The id of the turn's run."""
        return self.derived(f"run {self.turn}")

    @property
    def answer(self) -> str:
        """The id of the step's answer."""
        return self.derived(f"answer {self.step}")

    @property
    def results(self) -> str:
        """The id of the message with the results of the step's calls."""
        return self.derived(f"results {self.step}")

    @property
    def position(self) -> int:
        """The answer's: before it are the prompts of all turns, and two messages of each step but the turns' last."""
        return 2 * self.step - 1

    def derived(self, what: str) -> str:
        """An id."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.workflow_id} {what}"))


class Writer:
    """Inserts what a step stores, within the transaction of whoever made it."""

    def __init__(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record], place: Place) -> None:
        """Insert through `connection`."""
        self._connection = connection
        self._place = place

    async def row(self, table: str, *values: object) -> None:
        """Insert a row of the session's."""
        await self._connection.execute(_INSERT[table], _TENANT, self._place.session, *values)

    async def message(self, message_id: str, place: Place, position: int, kind: str, body: Any) -> None:
        """Insert a message of a step; an answer has a usage and a reason to stop."""
        text, is_answer = compact(body).encode(), kind == "assistant"
        stop = "tool_use" if is_answer and body["toolCalls"] else "end_turn"
        await self.row(
            "messages", message_id, place.session, position, place.run, place.step, kind, text, digest(text),
            compact(USAGE) if is_answer else None, stop if is_answer else None,
        )  # fmt: skip

    async def events(self, events: Sequence[Event]) -> None:
        """Insert events, each by an insert of its own."""
        place, now = self._place, datetime.now(UTC)
        rows = [(_TENANT, place.session, place.run, *event, now) for event in events]
        await self._connection.executemany(_INSERT["events"], rows)

    async def checkpoint(self, place: Place, messages: Sequence[str], *, done: bool) -> None:
        """Insert the checkpoint at the end of a step, and its events."""
        checkpoint = place.derived(f"checkpoint {place.step}")
        at, position = datetime.now(UTC).isoformat(), place.position + len(messages)
        record = {
            "id": checkpoint, "run": place.run, "step": place.step, "node": place.session, "position": position,
            "start": 0, "at": at, "usage": USAGE, "step_usage": USAGE, "cycles": place.step,
            "messages": [{"id": message, "sha256": digest(message.encode())} for message in messages],
            "metadata": {}, "done": done, "history_length": 0,
        }  # fmt: skip
        await self.row(
            "checkpoints", checkpoint, place.run, place.session, place.step, position, at, compact(record), place.run
        )
        ended = step_event(place.step, "step_end", stepNumber=place.step, usage=USAGE)
        await self.events([ended, step_event(place.step, "checkpoint", checkpointId=checkpoint)])


def digest(body: bytes) -> str:
    """Its SHA-256, in hex."""
    return sha256(body).hexdigest()
