"""How much of a counted test runs: all of it in `make soak`, a small share in `make test`. And how long a thing may take."""

from __future__ import annotations

import os
import time

_SPIN_S = 0.05
_DISK_S = 1.0


def scaled(count: int) -> int:
    """The share of `count` that this run does, at least 1.

    Args:
        count: how often the behaviour is tried at full scale.
    """
    return max(1, round(count * float(os.environ.get("PERDURE_TEST_SCALE", "0.05"))))


def allowed_s(limit_s: float) -> float:
    """The limit for something that was just timed, longer where the machine is busy with other things.

    A processor that is shared makes everything slower by as much as a spin of known work; a disk that is shared may
    hold one write for a moment. A fault that such a limit is there for (a missed heartbeat, a throttle, a retry) is
    many times longer.

    Args:
        limit_s: what is promised on a machine of its own.
    """
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < _SPIN_S:
        pass
    return limit_s * max(1.0, (time.monotonic() - began) / _SPIN_S) + _DISK_S
