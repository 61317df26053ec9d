"""Rows of a run's event log, as the store gives them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from perdure.uap.ids import wait_id
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.stream import StreamEvent, text_delta, tool_call_delta, tool_execution_end, tool_execution_start

AT = datetime(2026, 1, 1, tzinfo=UTC)
USAGE: JSONObject = {"inputTokens": 25, "outputTokens": 12, "totalTokens": 37, "cacheReadTokens": 15}


@dataclass(frozen=True)
class Row:
    """One row."""

    seq: int
    run: str | None
    source: str
    type: str
    data: JSONObject
    at: datetime = AT


@dataclass
class LoggedRun:
    """Writes the rows of one run."""

    run: str = "run-1"
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def row(self, source: str, kind: str, data: JSONObject) -> Row:
        """Any row."""
        return Row(next(self.numbers), self.run, source, kind, data)

    def of_run(self, kind: str, **data: JSONValue) -> Row:
        """A row about the run."""
        return self.row("run", kind, data)

    def step_end(self, usage: JSONObject) -> Row:
        """The end of a step."""
        return self.row("uap", "step_end", {"stepNumber": 1, "usage": usage})

    def upp(self, event: StreamEvent, message: str = "m1") -> Row:
        """An event of a model's message."""
        data: JSONObject = {"message": message, "index": event.index, "delta": event.delta.to_json()}
        return self.row("upp", event.type.value, data)

    def says(self, *pieces: str, message: str = "m1") -> list[Row]:
        """Text, piece by piece."""
        return [self.upp(text_delta(piece), message) for piece in pieces]

    def calls(self, *calls: tuple[str, str, str], message: str = "m1", streamed: bool = True) -> list[Row]:
        """Calls of id, name and arguments' JSON text; streamed in two pieces each, then told, then begun."""
        rows: list[Row] = []
        if streamed:
            for index, (ident, name, text) in enumerate(calls):
                rows += [
                    self.upp(tool_call_delta(ident, name, piece, index), message) for piece in (text[:3], text[3:])
                ]
        told: list[JSONValue] = [
            {"toolCallId": ident, "toolName": name, "arguments": {"city": text[9:-2]}} for ident, name, text in calls
        ]
        rows.append(self.row("uap", "action", {"toolCalls": told}))
        for index, (ident, name, _) in enumerate(calls):
            rows.append(self.upp(tool_execution_start(ident, name, 1, index), message))
        return rows

    def returns(self, ident: str, result: JSONValue, *, failed: bool = False, name: str = "search") -> Row:
        """A tool has returned."""
        return self.upp(tool_execution_end(ident, name, result, failed, 2), "m1")

    def waits_for(self, index: int, *, message: str = "m1", again: str = "") -> Row:
        """The run is parked until a call is answered."""
        return self.of_run("run.parked", reason="tool_result", wait=wait_id(message, index) + again)

    def completed(self, usage: JSONObject | None = None) -> Row:
        """The run has ended well."""
        return self.of_run("run.completed", usage=USAGE if usage is None else usage)
