"""Rows of runs and checkpoints, made from what histories and the event log say. Pure.

History comes first. Where a row was written before Temporal heard of it (a result that was stored when its worker died),
the event log knows, for the event was written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from perdure.activities.contracts import EndRunResult
from perdure.activities.convert import converter
from perdure.errors import DamagedSession
from perdure.runtime.run_log import RunLog
from perdure.runtime.session_history import RunHistory
from perdure.store.rebuilt import Identity, Kept, RowValues
from perdure.store.runs import TERMINAL
from perdure.uap.recorded_usage import join_usage, less_usage
from perdure.uap.session_key import SessionKey

_NO_CHECKPOINT: dict[str, Any] = {"step": 0, "usage": None, "cycles": 0}


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run by everything that is known of it.

    `active` says that it has not ended; `base` is the Progress of the checkpoint that it went on from.
    """

    key: SessionKey
    ordinal: int
    active: bool
    history: RunHistory
    log: RunLog
    base: Mapping[str, Any] = field(default_factory=dict[str, Any])

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
    base = cast("Mapping[str, Any]", kept.resumed.get(run, {}).get("progress") or {})
    return KnownRun(key, kept.ordinals[run], kept.active_run == run, history, logs[run], base)


def run_row(run: KnownRun, existing: RowValues | None) -> RowValues:
    """The row of a run.

    Args:
        run: what is known of it.
        existing: its row, which stands where the run has come further than the histories that are left tell.
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
    if history.turn_sha256:  # a worker that died may have stored one that no history tells of; then the row stands
        begun["turn_sha"] = history.turn_sha256
    if run.active and existing is not None and log.checkpoints.keys() - history.checkpoints.keys():
        return existing
    if run.active:
        return {**begun, **_standing(run)}
    if history.end is None and existing is not None and existing["status"] in TERMINAL:
        return existing
    end = history.end or _logged_end(run)
    return {
        **begun,
        "status": end.status,
        "step": end.step,
        "started_step": max([*history.steps, log.step, run.base.get("step", 0)]),
        "usage": end.usage,
        "usage_by_agent": _used(run, end),
        "cycles": end.cycles,
        "error": end.error,
        "temporal_run_id": history.ended_in or _writer(run, log.step),
        "last_seq": None if log.ended is None else log.ended.seq,
        "ended_at": datetime.fromisoformat(end.at),
    }


def _used(run: KnownRun, end: EndRunResult) -> dict[str, dict[str, Any]]:
    """What a run used itself, by agent path: a checkpoint that it went on from was counted before."""
    name, base = run.history.frame.spec.name, run.base
    used = join_usage({name: end.usage}, end.usage_by_agent)
    if run.history.frame.spec.strategy.starts_over or not base:
        return used
    return less_usage(used, join_usage({name: base.get("usage", {})}, base.get("usage_by_agent", {})))


def _standing(run: KnownRun) -> RowValues:
    """Of a run that is open: what has been written, not what is on its way."""
    taken = [taken for id_, taken in run.history.checkpoints.items() if id_ in run.log.checkpoints]
    written = [item.records[item.execution] for item in taken]
    begun: dict[str, Any] = {**_NO_CHECKPOINT, "usage": {}, **run.base} if run.base else _NO_CHECKPOINT
    last = max(written, key=lambda record: record["step"], default=begun)
    return {
        "status": "parked" if run.log.parked else "running",
        "step": last["step"],
        "started_step": max(run.log.step, begun["step"]),
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
        usage_by_agent=data.get("usageByAgent", {}),
    )


def checkpoint_rows(run: KnownRun, existing: Mapping[Identity, RowValues], lost: set[str]) -> list[RowValues]:
    """The rows of a run's checkpoints; of an open run those that have been written.

    The others are on their way with an activity, whose transaction also writes their events if their rows are new.

    Args:
        run: what is known of it.
        existing: the session's rows, by primary key; each is held against the history of the execution that it names.
        lost: executions whose history is gone; their rows stand as they are.
    """
    rows: list[RowValues] = []
    for id_, taken in run.history.checkpoints.items():
        if run.active and id_ not in run.log.checkpoints:
            continue
        named = existing.get((run.key.tenant, run.key.session, id_), {}).get("temporal_run_id")
        if named in lost:
            continue
        execution = named if named in taken.records else taken.execution
        record = taken.records[execution]
        rows.append(
            run.owned(
                id=id_,
                run_id=run.history.frame.run,
                node_id=record["node"],
                step=record["step"],
                position=record["position"],
                at=record["at"],
                record=record,
                temporal_run_id=execution,
            )
        )
    return rows
