"""What the event log says of runs: what was written when, whether or not Temporal has heard of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.runtime.session_history import SessionHistory
from perdure.store.rebuilt import LogEntry, RowValues
from perdure.uap.events import RUN_TERMINAL
from perdure.upp.json_value import JSONValue


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
