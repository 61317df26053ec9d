"""Chance of our own."""

from __future__ import annotations

import random
import subprocess
import sys

from perdure.upp.chance import CHANCE

FORKED = r"""
import os
from perdure.upp.chance import CHANCE
child = os.fork()
os.write(1, f"{CHANCE.random()}\n".encode())  # whole: a print may be written in two parts
if child:
    os.wait()
"""


def test_what_the_user_has_seeded_is_left_alone() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    CHANCE.random()
    assert random.random() == expected


def test_a_child_draws_otherwise_than_its_parent() -> None:
    told = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    one, other = told.stdout.split()
    assert one != other
