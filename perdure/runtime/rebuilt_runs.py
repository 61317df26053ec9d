"""Rows of runs, checkpoints and root nodes, made from what histories and the event log say. Pure.

History comes first. Where a row was written before Temporal heard of it (a result that was stored when its worker died),
the event log knows, for the event was written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from perdure.activities.contracts import EndRunResult
from perdure.activities.convert import converter
from perdure.errors import DamagedSession
from perdure.runtime.session_history import RunHistory, SessionHistory
from perdure.store.rebuilt import Kept, LogEntry, RowValues
from perdure.store.runs import TERMINAL
from perdure.uap.events import RUN_TERMINAL
from perdure.uap.ids import root_node_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue

_NO_CHECKPOINT: dict[str, Any] = {"step": 0, "usage": None, "cycles": 0}


@dataclass(slots=True)
class RunLog:
    """What the event log says of a run.

    Attributes:
        began: its `run.started`.
        ended: its terminal event, or None.
        step: the last step that was started.
        checkpoints: ids of those that were written, in order.
        parked: why it waits.
        results: `tool_execution_end` of each stored result, by answer and index.
    """

    began: LogEntry
    ended: LogEntry | None = None
    step: int = 0
    checkpoints: dict[str, None] = field(default_factory=dict[str, None])
    parked: set[tuple[JSONValue, JSONValue]] = field(default_factory=set[tuple[JSONValue, JSONValue]])
    results: dict[tuple[str, int], LogEntry] = field(default_factory=dict[tuple[str, int], LogEntry])

    def hear(self, entry: LogEntry) -> None:
        """Take in an entry; they come in order."""
        data = cast("dict[str, Any]", entry.data)
        waits = (data.get("reason"), data.get("wait"))
        match entry.type:
            case "step_start":
                self.step = max(self.step, entry.step or 0)
            case "checkpoint":
                self.checkpoints[data["checkpointId"]] = None
            case "run.parked":
                self.parked.add(waits)
            case "run.resumed":
                self.parked.discard(waits)
            case "run.adopted":
                self.parked.clear()
            case "tool_execution_end":
                self.results.setdefault((data["message"], data["index"]), entry)
            case _:
                self.ended = entry if entry.type in RUN_TERMINAL else self.ended


def read_logs(log: Iterable[LogEntry]) -> dict[str, RunLog]:
    """The log of each run that began."""
    found: dict[str, RunLog] = {}
    for entry in log:
        if entry.type == "run.started":
            found[entry.run] = RunLog(entry)
        elif entry.run in found:
            found[entry.run].hear(entry)
    return found


def is_ahead(logs: Mapping[str, RunLog], history: SessionHistory, open_executions: set[str]) -> bool:
    """Whether something is written of a run (that it began or ended, a checkpoint) that history will tell yet."""

    def is_untold(run: str, log: RunLog) -> bool:
        told = history.runs.get(run)
        if told is None:
            return log.began.data["execution"] in open_executions
        untold = (log.ended is not None and told.end is None) or log.checkpoints.keys() - told.checkpoints.keys()
        return bool(untold and told.executions & open_executions)

    return any(is_untold(run, log) for run, log in logs.items())


def missing_checkpoints(logs: Mapping[str, RunLog], rows: list[RowValues]) -> list[str]:
    """Ids of checkpoints that were written once and have no row, in order."""
    there = {row["id"] for row in rows}
    return [id_ for log in logs.values() for id_ in log.checkpoints if id_ not in there]


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run by everything that is known of it. `active` says that it has not ended."""

    key: SessionKey
    ordinal: int
    active: bool
    history: RunHistory
    log: RunLog

    def owned(self, **values: Any) -> RowValues:
        """A row of this session."""
        return {"tenant_id": self.key.tenant, "session_id": self.key.session, **values}


def known_run(key: SessionKey, kept: Kept, history: RunHistory, logs: Mapping[str, RunLog]) -> KnownRun:
    """Put together what is known of a run.

    Raises:
        DamagedSession: its input or its beginning in the event log is missing.
    """
    run = history.frame.run
    if run not in kept.ordinals or run not in logs:
        raise DamagedSession(f"run {run}, which history names, has no input or no run.started; restore a backup")
    return KnownRun(key, kept.ordinals[run], kept.active_run == run, history, logs[run])


def run_row(run: KnownRun, existing: RowValues | None) -> RowValues:
    """The row of a run.

    Args:
        run: what is known of it.
        existing: its row, which stands where the run has ended and history has not heard of it.
    """
    frame, history, log = run.history.frame, run.history, run.log
    begun = run.owned(
        id=frame.run,
        ordinal=run.ordinal,
        spec=converter.unstructure(frame.spec),
        node_id=frame.node,
        start_position=frame.start,
        first_seq=log.began.seq,
        started_at=datetime.fromisoformat(frame.started) if frame.started else log.began.at,
    )
    if run.active:
        return {**begun, **_standing(run)}
    if history.end is None and existing is not None and existing["status"] in TERMINAL:
        return existing
    end = history.end or _logged_end(run)
    return {
        **begun,
        "status": end.status,
        "step": end.step,
        "started_step": max([*history.steps, log.step]),
        "usage": end.usage,
        "cycles": end.cycles,
        "error": end.error,
        "temporal_run_id": history.ended_in or _writer(run, log.step),
        "last_seq": None if log.ended is None else log.ended.seq,
        "ended_at": datetime.fromisoformat(end.at),
    }


def _standing(run: KnownRun) -> RowValues:
    """Of a run that is open: what has been written, not what is on its way."""
    written = [taken.record for id_, taken in run.history.checkpoints.items() if id_ in run.log.checkpoints]
    last = max(written, key=lambda record: record["step"], default=_NO_CHECKPOINT)
    return {
        "status": "parked" if run.log.parked else "running",
        "step": last["step"],
        "started_step": run.log.step,
        "usage": last["usage"],
        "cycles": last["cycles"],
        "error": None,
        "temporal_run_id": _writer(run, run.log.step),
        "last_seq": None,
        "ended_at": None,
    }


def _writer(run: KnownRun, step: int) -> str:
    """The execution that started a step; for 0, the run."""
    taken = run.history.steps.get(step)
    return taken.execution if taken is not None else str(run.log.began.data["execution"])


def _logged_end(run: KnownRun) -> EndRunResult:
    """A run's end by its terminal event."""
    entry = run.log.ended
    if entry is None:
        raise DamagedSession(f"run {run.history.frame.run} is not active and has no end in history or event log")
    data = cast("dict[str, Any]", entry.data)
    return EndRunResult(
        kind="ended",
        run=entry.run,
        status=entry.type.removeprefix("run."),
        at=data["at"],
        step=data["steps"],
        usage=data["usage"],
        cycles=data["cycles"],
        error=data.get("error"),
    )


def checkpoint_rows(run: KnownRun) -> list[RowValues]:
    """The rows of a run's checkpoints; of an open run those that have been written.

    The others are on their way with an activity, whose transaction also writes their events if their rows are new.
    """
    return [
        run.owned(
            id=id_,
            run_id=run.history.frame.run,
            node_id=taken.record["node"],
            step=taken.record["step"],
            position=taken.record["position"],
            at=taken.record["at"],
            record=taken.record,
            temporal_run_id=taken.execution,
        )
        for id_, taken in run.history.checkpoints.items()
        if not run.active or id_ in run.log.checkpoints
    ]


def root_row(key: SessionKey, kept: Kept) -> RowValues:
    """The row of the root node, which is as old as its session."""
    root = root_node_id(key.session)
    return {
        "tenant_id": key.tenant,
        "session_id": key.session,
        "id": root,
        "parent_id": None,
        "name": "main",
        "fork_index": None,
        "thread_id": root,
        "metadata": {},
        "created_at": kept.session.created_at,
    }


def session_totals(key: SessionKey, kept: Kept, logs: Mapping[str, RunLog], rows: list[RowValues]) -> RowValues:
    """What the session's row says of its runs; nothing where a run that began has no row any more.

    Args:
        key: the session.
        kept: the rows that are truth.
        logs: of the runs that began.
        rows: of the runs.
    """
    if logs.keys() - {row["id"] for row in rows}:
        return {}
    ended = sorted((row for row in rows if row["ended_at"] is not None), key=lambda row: row["last_seq"])
    newest = max(rows, key=lambda row: row["first_seq"], default={"node_id": root_node_id(key.session)})
    usage: JSONObject = {
        name: sum(row["usage"].get(name, 0) for row in ended) for name in ("inputTokens", "outputTokens")
    }
    return {
        "status": "paused" if kept.paused else "running" if kept.active_run else "idle",
        "current_node": kept.session.current_node or newest["node_id"],
        "runs": len(rows),
        "steps": sum(row["step"] for row in ended),
        "usage": usage,
        "updated_at": ended[-1]["ended_at"] if ended else kept.session.created_at,
    }
