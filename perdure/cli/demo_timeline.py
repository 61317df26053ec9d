"""The steps of a run, put together from its events as they come, and the two moments of the crash among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, cast

from perdure.cli.demo_project.ledger import Entry
from perdure.cli.demo_project.report import one_line
from perdure.uap.events import RUN_TERMINAL
from perdure.upp import JSONObject

if TYPE_CHECKING:  # it loads the driver, for which the demo's first line need not wait
    from perdure.store.events import Event


@dataclass(slots=True)
class Step:
    """One step: what the model said, and the tools that it called.

    Attributes:
        calls: each as "name argument", by call id, in order.
        open: ids of those without a result.
        ended_at: when the last result was stored; of a step without calls, when the run ended.
    """

    number: int
    said: str = ""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    open: set[str] = field(default_factory=set[str])
    ended_at: datetime | None = None

    @property
    def label(self) -> str:
        """What it did, in a few words."""
        calls = list(self.calls.values())
        if not calls:
            return "the answer"
        return calls[0] if len(calls) == 1 else f"{calls[0]} and {len(calls) - 1} more at once"


class Timeline:
    """The steps so far."""

    def __init__(self) -> None:
        """Begin with none."""
        self.steps: dict[int, Step] = {}

    def add(self, event: Event) -> Step | None:
        """Take an event; returns the step that is complete by it, if one is."""
        if event.type in RUN_TERMINAL:
            last = list(self.steps.values())[-1:]
            return self._ended(last[0], event) if last and not last[0].calls else None
        if event.step is None:
            return None
        step = self.steps.setdefault(event.step, Step(event.step))
        match event.type:
            case "text_delta":
                step.said += one_line(str(_delta(event).get("text", "")))
            case "message.reset":
                step.said = ""
            case "action":
                for called in cast("list[JSONObject]", event.data["toolCalls"]):
                    step.calls[str(called["toolCallId"])] = _described(called)
                step.open = set(step.calls)
            case "tool_execution_end":
                step.open.discard(str(_delta(event)["toolCallId"]))
                return None if step.open else self._ended(step, event)
            case _:
                pass
        return None

    @staticmethod
    def _ended(step: Step, event: Event) -> Step:
        step.ended_at = event.at
        return step


def _delta(event: Event) -> JSONObject:
    return cast(JSONObject, event.data["delta"])


def _described(called: JSONObject) -> str:
    arguments = called["arguments"]
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return one_line(f"{called['toolName']} {path}" if path else str(called["toolName"]))


@dataclass(frozen=True, slots=True)
class Crash:
    """The kill of a worker, and the next one's first effect, in Unix time.

    Attributes:
        killed: the worker's number; the next one's is one more.
        at: of the kill.
        recovered_at: of the next one's first effect.
    """

    killed: int
    at: float
    recovered_at: float


@dataclass(frozen=True, slots=True)
class Span:
    """A line of the timeline, in seconds since the run's first effect.

    Attributes:
        label: what took that time.
        step: its number; None for the time that the crash cost.
    """

    begin_s: float
    end_s: float
    label: str
    step: int | None = None


def spans(steps: Sequence[Step], entries: Sequence[Entry], crash: Crash | None) -> list[Span]:
    """The steps that ended and the crash, by their beginnings.

    Args:
        steps: in order.
        entries: the ledger; a step begins when its model call is bought.
        crash: None if there was none.
    """
    bought = {int(entry.key) + 1: entry.at for entry in reversed(entries) if entry.kind == "model"}
    zero = min(bought.values(), default=0.0)
    found = [
        Span(bought[step.number] - zero, step.ended_at.timestamp() - zero, step.label, step.number)
        for step in steps
        if step.ended_at is not None and step.number in bought
    ]
    if crash is not None:
        label = f"worker {crash.killed} killed, worker {crash.killed + 1} goes on"
        found.append(Span(crash.at - zero, crash.recovered_at - zero, label))
    return sorted(found, key=lambda span: span.begin_s)


def bars(spans: Sequence[Span], columns: int) -> list[str]:
    """Each span drawn to scale in so many columns: `#` for work, `.` for the time that the crash cost."""
    total = max((span.end_s for span in spans), default=0.0) or 1.0
    # Cells that the crash fills whole; in those at its edges a step has worked too.
    crashed = {
        cell
        for span in spans
        if span.step is None
        for cell in range(math.ceil(span.begin_s / total * columns), int(span.end_s / total * columns))
    }
    drawn: list[str] = []
    for span in spans:
        cells = _cells(span, total, columns)
        marks = ("." if span.step is None or cell in crashed else "#" for cell in cells)
        drawn.append(" " * cells.start + "".join(marks))
    return drawn


def _cells(span: Span, total: float, columns: int) -> range:
    """The columns that a span covers, at least one."""
    start = min(int(span.begin_s / total * columns), columns - 1)
    return range(start, max(start + 1, min(round(span.end_s / total * columns), columns)))
