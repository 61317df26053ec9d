"""The answers that this process stored a moment ago: nobody else has begun what follows them."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from perdure.activities.contracts import GenerateInput

_MOMENT_S = 2.0
"""Another worker takes a run over when its workflow task has timed out, which is after 5 s, and loses it after 5 s more."""
_MOST = 1024


@dataclass(frozen=True, slots=True)
class _Won:
    position: int
    at: float = field(default_factory=time.monotonic)


class WonAnswers:
    """The last of each run."""

    def __init__(self) -> None:
        """Nothing is stored yet."""
        self._last: OrderedDict[str, _Won] = OrderedDict()

    def add(self, run: str, position: int) -> None:
        """Note that an answer at a position was stored, and by nobody before."""
        self._last[run] = _Won(position)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)

    def takes_up(self, call: GenerateInput) -> bool:
        """Whether a call is the next of its run, with nothing but results and a prompt in between. Asked once."""
        won = self._last.pop(call.run, None)
        if won is None or time.monotonic() - won.at > _MOMENT_S:
            return False
        return 0 < call.position - won.position <= 3
