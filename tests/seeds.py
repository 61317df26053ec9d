"""Chance that can be had again: a test that draws says its seed, which a failure shows."""

from __future__ import annotations

import os
import random
import secrets
import sys


def drawn(name: str) -> random.Random:
    """Chance of a test's own. `PERDURE_TEST_SEED` gives the same again.

    Args:
        name: the test's, printed with the seed.
    """
    seed = int(os.environ.get("PERDURE_TEST_SEED") or secrets.randbelow(2**32))
    sys.stdout.write(f"{name}: PERDURE_TEST_SEED={seed}\n")
    return random.Random(seed)
