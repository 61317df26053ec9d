"""What the histories of a session's executions say of its runs, put together. Pure: who reads them is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from perdure.activities.contracts import (
    AroundInput,
    AroundResult,
    BeginRunResult,
    CallToolInput,
    CallToolResult,
    EndRunResult,
    GenerateInput,
    GenerateResult,
    RunFrame,
    SessionInput,
)
from perdure.activities.history import Entry
from perdure.errors import DamagedSession
from perdure.uap.ids import results_id


@dataclass(slots=True)
class Taken:
    """A record that activities took along.

    Attributes:
        execution: that of the first activity that wrote it for certain, else of the first.
        records: by execution; they differ in what is measured, if the boundary was reached twice.
        written: the executions that wrote it for certain, or found it written.
    """

    execution: str
    records: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    written: set[str] = field(default_factory=set[str])

    def add(self, entry: Entry, record: dict[str, Any]) -> None:
        """Note that an activity took it along."""
        if entry.has_written and entry.execution not in self.written:
            if not self.written:
                self.execution = entry.execution
            self.written.add(entry.execution)
            self.records[entry.execution] = record
        self.records.setdefault(entry.execution, record)


@dataclass(slots=True)
class Asked:
    """A model call. `answer` is what it returned, if it returned one."""

    step: int
    results: str
    answer: GenerateResult | None = None


@dataclass(slots=True)
class RunHistory:
    """One run.

    Attributes:
        frame: what stays the same for the whole run.
        executions: those that had it.
        steps: of started steps, by number.
        checkpoints: by id, in order.
        asked: model calls by the id of their answer, in order.
        called: tool calls that were scheduled, by answer and index, with the result that Temporal heard of.
        end: what ended it, or None.
        ended_in: the execution that ended it.
        turn_sha256: of the stored turn that middleware put in place of its own; "" if it did not.
    """

    frame: RunFrame
    executions: set[str] = field(default_factory=set[str])
    steps: dict[int, Taken] = field(default_factory=dict[int, Taken])
    checkpoints: dict[str, Taken] = field(default_factory=dict[str, Taken])
    asked: dict[str, Asked] = field(default_factory=dict[str, Asked])
    called: dict[tuple[str, int], CallToolResult | None] = field(
        default_factory=dict[tuple[str, int], CallToolResult | None]
    )
    end: EndRunResult | None = None
    ended_in: str = ""
    turn_sha256: str = ""


@dataclass(slots=True)
class SessionHistory:
    """All runs that histories tell of, and the bodies they name.

    Attributes:
        runs: by id, in order.
        bodies: sha256 of messages' stored bodies by message id; "" where no history says it.
        payloads: sha256 of tool results, and of turns that middleware made.
    """

    runs: dict[str, RunHistory] = field(default_factory=dict[str, RunHistory])
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    payloads: set[str] = field(default_factory=set[str])

    def hear(self, entries: Iterable[Entry]) -> None:
        """Take in one execution; they come oldest first.

        Raises:
            DamagedSession: it names another hash for a message than a history before it.
        """
        run = ""
        for entry in entries:
            frame = _frame(entry)
            if frame is not None:
                run = frame.run
                self.runs.setdefault(run, RunHistory(frame)).executions.add(entry.execution)
                self._name(frame.message, frame.message_sha)
            for record in entry.pending:
                self._take(self.runs[run], entry, record)
            if isinstance(entry.input, GenerateInput):
                self._hear_answer(entry.input, entry.result)
            elif isinstance(entry.input, CallToolInput):
                self._hear_result(entry.input, entry.input.index, entry.result)
            elif isinstance(entry.input, AroundInput):
                self._hear_turn(entry.input, entry.result)
            elif isinstance(entry.result, EndRunResult) and entry.result.kind == "ended":
                ended = self.runs[entry.result.run]
                if ended.end is None:
                    ended.end, ended.ended_in = entry.result, entry.execution

    def _take(self, run: RunHistory, entry: Entry, item: dict[str, Any]) -> None:
        if item["k"] == "step":
            run.steps.setdefault(item["step"], Taken(entry.execution)).add(entry, item)
            return
        record = item["r"]
        run.checkpoints.setdefault(record["id"], Taken(entry.execution)).add(entry, record)
        for mark in record["messages"]:
            self._name(mark["id"], mark["sha256"])

    def _hear_answer(self, call: GenerateInput, result: GenerateResult | None) -> None:
        asked = self.runs[call.run].asked.setdefault(call.message, Asked(call.step, call.results))
        if result is not None and result.message is not None:
            asked.answer = result
            self._name(call.message, result.sha256)
            if call.ask is not None and call.ask.prompt_id:
                self._name(call.ask.prompt_id, result.prompt_sha256)
            for index, called in enumerate(result.called):
                self._hear_result(call, index, called)

    def _hear_result(self, call: GenerateInput | CallToolInput, index: int, result: CallToolResult | None) -> None:
        called = self.runs[call.run].called
        place = (call.message, index)
        called.setdefault(place, None)
        if result is not None and result.kind == "result":
            called[place] = result
            self.payloads.add(result.sha256)
            if result.batch_sha256 is not None:
                asked = self.runs[call.run].asked.get(call.message)
                self._name(asked.results if asked else results_id(call.run, call.step), result.batch_sha256)

    def _hear_turn(self, call: AroundInput, result: AroundResult | None) -> None:
        if result is not None and result.turn_sha256:
            self.runs[call.run].turn_sha256 = result.turn_sha256
            self.payloads.add(result.turn_sha256)

    def _name(self, message: str, sha256: str) -> None:
        known = self.bodies.get(message) or sha256
        if sha256 and known != sha256:
            raise DamagedSession(f"histories name two hashes for message {message}: {known} and {sha256}")
        self.bodies[message] = known


def _frame(entry: Entry) -> RunFrame | None:
    """The run that an entry begins, or goes on with."""
    if isinstance(entry.input, SessionInput):
        return entry.input.carried.frame if entry.input.carried is not None else None
    return entry.result.frame if isinstance(entry.result, BeginRunResult) else None
