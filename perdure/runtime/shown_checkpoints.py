"""Which checkpoints a durable session shows: its runs take one at every step's end, whatever its options say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.runtime.followed_run import EventChoice
from perdure.uap.agent_stream import AgentStreamEvent, UAPEventType
from perdure.uap.session_checkpoints import RUN_ID, Checkpoint
from perdure.uap.session_options import Interval


class ShownCheckpoints:
    """The choice of one session."""

    def __init__(self, interval: Interval | None) -> None:
        """Show those of every step, the last of each turn, or none."""
        self._interval = interval

    def choose(self, items: Sequence[Checkpoint], is_kept: Callable[[Checkpoint], bool]) -> list[Checkpoint]:
        """Those that are shown, in their order.

        Args:
            items: all of them.
            is_kept: says whether a checkpoint's run is part of the thread; one that failed has no turn.
        """
        if self._interval == "step":
            return list(items)
        if self._interval is None:
            return []
        last = {item.metadata.get(RUN_ID, item.id): item for item in items}
        return [item for item in items if last[item.metadata.get(RUN_ID, item.id)] is item and is_kept(item)]

    def of_stream(self) -> EventChoice:
        """The choice for the events of one run."""
        return EventChoice() if self._interval == "step" else _OfTurn(shown=self._interval == "turn")


class _OfTurn(EventChoice):
    """Keeps back the last `checkpoint` event, and gives it at the end of the run if it is to be shown."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._last: list[AgentStreamEvent] = []

    def choose(self, events: list[AgentStreamEvent]) -> list[AgentStreamEvent]:
        chosen: list[AgentStreamEvent] = []
        for event in events:
            if event.path or event.uap is None or event.uap.type is not UAPEventType.CHECKPOINT:
                chosen.append(event)
            else:
                self._last = [event]
        return chosen

    def rest(self) -> list[AgentStreamEvent]:
        return self._last if self._shown else []
