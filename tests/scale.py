"""How much of a counted test runs: all of it in `make soak`, a small share in `make test`."""

from __future__ import annotations

import os


def scaled(count: int) -> int:
    """The share of `count` that this run does, at least 1.

    Args:
        count: how often the behaviour is tried at full scale.
    """
    return max(1, round(count * float(os.environ.get("PERDURE_TEST_SCALE", "0.05"))))
