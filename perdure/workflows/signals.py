"""What was signalled to a session, noted as it came. Noting never raises: that would end the workflow."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from temporalio import workflow
from temporalio.common import RawValue

from perdure.activities.contracts import ANSWER, CANCEL, PAUSE, RESUME, STEER, WAKE, Carried
from perdure.workflows.signal_values import SHOWN, check_length, read_value

_SEEN = 200
_UNREADABLE = 50


@dataclass(frozen=True, slots=True)
class Control:
    """A pause, resume or cancel as it was signalled; `number` is its place among the execution's signals."""

    kind: str
    id: str | None = None
    run: str | None = None
    number: int = field(default=0, compare=False)


class SignalBox:
    """Signals that wait to be handled, and the ids of those that were.

    Attributes:
        steered: inputs may wait to join the run, or have joined it in the step that is to be done again.
    """

    def __init__(self, carried: Carried) -> None:
        """Go on with what the execution before had noted."""
        self.noted = 0
        self.controls: deque[Control] = deque()
        self.unreadable: deque[tuple[int, str]] = deque()
        self.answered: list[str] = list(carried.answered)
        self.seen: list[str] = list(carried.seen)
        self.steered = carried.steered

    def note(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take in one signal, whatever it holds."""
        self.noted += 1
        if name == WAKE:
            return
        if name == STEER:
            self.steered = True
            return
        try:
            self._read(name, read_value(arguments))
        except Exception as error:  # noqa: BLE001 - anything may be in a signal; it becomes an event
            self._refuse(f"{name}: {error}")

    def _read(self, name: str, value: dict[str, object]) -> None:
        if name == ANSWER:
            wait = value.get("wait")
            if not isinstance(wait, str):
                raise TypeError("'wait' must be a wait's id")
            check_length(wait)
            if wait not in self.answered:  # a sweep says it again until it is used
                self.answered = [*self.answered[-_SEEN:], wait]
            return
        if name not in (PAUSE, RESUME, CANCEL):
            raise TypeError("no such signal; there are wake, steer, pause, resume, cancel and answer")
        ident, run = value.get("id"), value.get("run")
        if not isinstance(ident, str | None) or not isinstance(run, str | None):
            raise TypeError("'id' and 'run' must be strings")
        check_length(ident, run)
        if ident is not None and ident in self.seen:
            return
        if ident is not None:
            self.seen = [*self.seen[-_SEEN:], ident]
        self.controls.append(Control(name, ident, run, self.noted))

    def use(self, wait: str) -> None:
        """Forget an answer that has been used."""
        self.answered = [item for item in self.answered if item != wait]

    def _refuse(self, text: str) -> None:
        workflow.logger.warning("signal.unreadable %s", text[:SHOWN])
        if len(self.unreadable) < _UNREADABLE:
            self.unreadable.append((self.noted, text[:SHOWN]))

    @property
    def waiting(self) -> bool:
        """Whether something is noted that has not been handled."""
        return bool(self.controls or self.unreadable)
