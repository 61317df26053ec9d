"""What was signalled to a stage session, noted as it came. Noting never raises: that would end the workflow."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue

from perdure.activities.contracts import ANSWER, PAUSE, RESUME, TERMINATE, WAKE, StageCarried, StageControl
from perdure.workflows.signal_values import SHOWN, check_length, read_value

_SEEN = 200
_LONGEST_REASON = 1000


class StageSignals:
    """Controls that wait to be applied, and how much else was signalled.

    Attributes:
        noted: how many signals came to this execution.
        answers: how many of them said that somebody has answered.
        controls: not yet applied, oldest first.
        seen: ids of controls that were noted, oldest first.
        unreadable: how many signals could not be read, over all executions.
    """

    def __init__(self, carried: StageCarried) -> None:
        """Go on with what the execution before had noted."""
        self.noted = 0
        self.answers = 0
        self.controls: deque[StageControl] = deque(carried.controls)
        self.seen: list[str] = list(carried.seen)
        self.unreadable = carried.unreadable

    def note(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take in one signal, whatever it holds. What an answer says is in its row."""
        self.noted += 1
        if name == WAKE:
            return
        if name == ANSWER:
            self.answers += 1
            return
        try:
            self._read(name, read_value(arguments))
        except Exception as error:  # noqa: BLE001 - anything may be in a signal; it is counted and logged
            workflow.logger.warning("signal.unreadable %s", f"{name}: {error}"[:SHOWN])
            self.unreadable += 1

    def add(self, kind: str, ident: str | None = None, reason: str = "") -> None:
        """Note a control, unless one of its id was noted before; one without an id gets its own."""
        ident = ident or f"{workflow.info().run_id}:{self.noted}"
        if ident not in self.seen:
            self.seen = [*self.seen[-_SEEN:], ident]
            self.controls.append(StageControl(kind, ident, reason[:_LONGEST_REASON]))

    def _read(self, name: str, value: dict[str, object]) -> None:
        if name not in (PAUSE, RESUME, TERMINATE):
            raise TypeError("no such signal; there are wake, answer, pause, resume and terminate")
        ident, reason = value.get("id"), value.get("reason")
        if not isinstance(ident, str | None) or not isinstance(reason, str | None):
            raise TypeError("'id' and 'reason' must be strings")
        check_length(ident)
        self.add(name, ident, reason or "")
