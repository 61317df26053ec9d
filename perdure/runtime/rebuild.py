"""Making a session's index again from Temporal's histories: `perdure doctor --rebuild`.

The histories hold every step boundary first; runs, checkpoints, tool calls, thread nodes and the session's totals are an
index of them. Where a row is written before Temporal hears of it, the event log, written in the same transaction, says
so; a row that is ahead of history is left as it is. An execution whose history is gone takes nothing away.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.history import Entry, read_entries
from perdure.errors import DamagedSession, ServerUnavailable
from perdure.runtime.rebuilt_calls import call_rows, unheard_answers
from perdure.runtime.rebuilt_moves import move_checkpoints, move_nodes, move_runs
from perdure.runtime.rebuilt_resumed import write_resumed_calls
from perdure.runtime.rebuilt_runs import checkpoint_rows, known_run, run_row
from perdure.runtime.rebuilt_sessions import node_rows, session_totals
from perdure.runtime.run_log import RunLog, is_ahead, missing_checkpoints, read_logs
from perdure.runtime.session_history import SessionHistory
from perdure.store.database import Database
from perdure.store.messages import read_message
from perdure.store.rebuilt import Kept, RowValues, check_payloads, lock_and_read, put_rows, put_totals, read_rows
from perdure.store.tables import checkpoints, runs, thread_nodes, tool_calls
from perdure.store.thread_repairs import read_moves
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import AssistantMessage

_INDEX = (runs, checkpoints, tool_calls, thread_nodes)
_PATIENCE_S = 5.0
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did.

    Attributes:
        runs: rows made again or corrected; likewise what follows.
        checkpoints: likewise.
        tool_calls: likewise.
        nodes: likewise.
        lost_executions: Temporal run ids whose history is gone, sorted; what their rows say stands as it is.
        missing_checkpoints: ids of those that were written once, and that neither a history nor a row has now, in order.
            Those that a killed worker has written and not reported come to history once another worker runs.
    """

    runs: int
    checkpoints: int
    tool_calls: int
    nodes: int
    lost_executions: list[str] = field(default_factory=list[str])
    missing_checkpoints: list[str] = field(default_factory=list[str])


class _Behind(Exception):
    """History has not heard yet of something that is written: a local activity's, until its workflow task ends."""


async def rebuild_session(client: Client, database: Database, key: SessionKey) -> RebuildReport:
    """Make the index rows of a session again, open or closed, in one transaction; its writers wait meanwhile.

    Raises:
        UnknownSession: there is no such session.
        SessionGone: it is being deleted.
        DamagedSession: a stored body is not the one that history names, or is missing; nothing was changed.
        ServerUnavailable: Temporal does not answer; nothing was changed.
    """
    shelf = _Shelf(client, key)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_S
    try:
        await shelf.read_closed()  # beforehand, as they do not change: the lock is held for what is open only
        while True:
            try:
                return await _rebuild(shelf, database, key, wait=loop.time() < deadline)
            except _Behind:
                await asyncio.sleep(_PAUSE_S)
    except RPCError as error:
        raise ServerUnavailable(f"Temporal does not answer, so nothing was rebuilt: {error}") from error


async def _rebuild(shelf: _Shelf, database: Database, key: SessionKey, *, wait: bool) -> RebuildReport:
    async with database.transaction(key) as connection:
        kept = await lock_and_read(connection, key)
        history = await shelf.read_rest(kept.executions)
        logs = read_logs(kept.log)
        if wait and is_ahead(logs, history, shelf.open):
            raise _Behind
        _check_bodies(kept, history)
        await check_payloads(connection, key, history.payloads)
        answers = await _read_answers(database, key, unheard_answers(history, kept))
        written, missing = await _write(connection, key, _Known(kept, history, logs, answers, shelf.lost))
    return RebuildReport(
        runs=written[runs],
        checkpoints=written[checkpoints],
        tool_calls=written[tool_calls],
        nodes=written[thread_nodes],
        lost_executions=sorted(shelf.lost),
        missing_checkpoints=missing,
    )


@dataclass(frozen=True, slots=True)
class _Known:
    kept: Kept
    history: SessionHistory
    logs: dict[str, RunLog]
    answers: dict[str, AssistantMessage]
    lost: set[str]


async def _write(connection: AsyncConnection, key: SessionKey, known: _Known) -> tuple[dict[Table, int], list[str]]:
    """Write what is missing or wrong; how many rows of each table, and which checkpoints have no row even so."""
    kept, logs = known.kept, known.logs
    index = {table: await read_rows(connection, table, key) for table in _INDEX}
    made: dict[Table, list[RowValues]] = {table: [] for table in _INDEX}
    moves = await read_moves(connection, key)
    made[thread_nodes].extend(move_nodes(node_rows(key, kept, index[thread_nodes]), moves, kept.changes))
    for told in known.history.runs.values():
        run = known_run(key, kept, told, logs)
        made[runs].append(run_row(run, index[runs].get((key.tenant, key.session, told.frame.run))))
        made[checkpoints].extend(checkpoint_rows(run, index[checkpoints], known.lost))
        made[tool_calls].extend(call_rows(run, kept, known.answers, index[tool_calls]))
    made[runs] = move_runs(made[runs], moves, list(index[runs].values()))
    made[checkpoints] = move_checkpoints(made[checkpoints], moves, {run: log.began.seq for run, log in logs.items()})
    written = {table: await put_rows(connection, table, index[table], made[table]) for table in _INDEX}
    written[tool_calls] += await write_resumed_calls(connection, key, kept.resumed)
    now = {table: list((await read_rows(connection, table, key)).values()) for table in (runs, checkpoints)}
    await put_totals(connection, key, kept, session_totals(key, kept, logs, now[runs]))
    return written, missing_checkpoints(logs, now[checkpoints])


def _check_bodies(kept: Kept, history: SessionHistory) -> None:
    for message, sha256 in history.bodies.items():
        body = kept.bodies.get(message)
        if body is None:
            raise DamagedSession(f"message {message}, which history names, is missing; restore it from a backup")
        if not body.whole or sha256 not in ("", body.sha256):
            raise DamagedSession(
                f"message {message} does not have the hash {sha256 or body.sha256} that is named for it"
            )


async def _read_answers(database: Database, key: SessionKey, ids: list[str]) -> dict[str, AssistantMessage]:
    stored = [await read_message(database, key, id_) for id_ in ids]
    return {item.id: item.message for item in stored if item and isinstance(item.message, AssistantMessage)}


@dataclass(slots=True)
class _Execution:
    started: datetime
    open: bool
    entries: list[Entry]


class _Shelf:
    """The histories of a session's executions; those of closed ones are read once.

    Attributes:
        lost: executions that rows name and Temporal has no more.
    """

    def __init__(self, client: Client, key: SessionKey) -> None:
        self._client = client
        self._id = key.workflow_id
        self._read: dict[str, _Execution] = {}
        self.lost: set[str] = set()

    @property
    def open(self) -> set[str]:
        """The executions to whose histories more may come."""
        return {name for name, execution in self._read.items() if execution.open}

    async def read_closed(self) -> None:
        """Read those that will not change any more."""
        quoted = self._id.replace("'", "''")
        async for item in self._client.list_workflows(f"WorkflowId = '{quoted}'"):
            if item.status is not WorkflowExecutionStatus.RUNNING:
                await self._take(item.run_id)

    async def read_rest(self, named: set[str]) -> SessionHistory:
        """Read what is left, and put everything together.

        Args:
            named: executions that rows name: the server's list lags behind a little, and forgets.
        """
        self._read = {name: execution for name, execution in self._read.items() if not execution.open}
        newest = await self._newest()
        while newest and newest not in self._read:  # the list may lack the last links of a chain
            await self._take(newest)
            newest = await self._before(newest)
        for execution in sorted(named - self._read.keys()):
            await self._take(execution)
        history = SessionHistory()
        for _, execution in sorted(self._read.items(), key=lambda item: (item[1].started, item[0])):
            history.hear(execution.entries)
        return history

    async def _take(self, execution: str) -> None:
        try:
            found = await self._handle(execution).describe()
            entries = [entry async for entry in read_entries(self._client, self._id, execution)]
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            self.lost.add(execution)
        else:
            self._read[execution] = _Execution(found.start_time, found.close_time is None, entries)

    async def _newest(self) -> str | None:
        try:
            return (await self._handle(None).describe()).run_id
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None

    async def _before(self, execution: str) -> str | None:
        """The execution that continued as this one, if one did."""
        if execution in self.lost:
            return None
        async for event in self._handle(execution).fetch_history_events(page_size=1):
            return event.workflow_execution_started_event_attributes.continued_execution_run_id or None
        return None

    def _handle(self, execution: str | None) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(self._id, run_id=execution)
