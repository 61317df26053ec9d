"""Chance of our own, for pauses that must not keep step: Python's shared generator is the user's, who may have seeded it."""

from __future__ import annotations

import os
import random

CHANCE = random.Random()

os.register_at_fork(after_in_child=CHANCE.seed)  # else all children of a process would draw alike
