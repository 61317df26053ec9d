"""The run in hand as the tool calls of one answer see it, where several answers are in hand at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.upp.usage import TokenUsage
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.step import Step


class AnswerInHand(RunInHand):
    """All of a run but the step: an answer's own, with its arguments and its places. Positions have been taken."""

    def __init__(self, run: RunInHand, hand: Step) -> None:
        """See `run` as the answer of `hand` does."""
        self.__dict__.update(run.__dict__)
        self._whole = run
        self.step = hand
        self.adopted_step = hand.number if run.frame.adopted else 0
        self.started_before = None

    def take_child(self, call: str, child: str, usage: Mapping[str, dict[str, Any]]) -> None:
        """See base class."""
        self._whole.take_child(call, child, usage)

    def spent(self) -> TokenUsage:
        """See base class."""
        return self._whole.spent()
