"""Where a Python process spends its time, by py-spy: whose code held the interpreter when it was looked at."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

_PER_SECOND = 250
_START_S = 2
_PARTS = (
    ("PostgreSQL's driver", ("asyncpg/",)),
    ("SQLAlchemy", ("sqlalchemy/",)),
    ("workflow code", ("perdure/workflows/", "floor_workflow.py")),
    ("activities", ("perdure/", "floor_", "benchmarks/")),
    ("Temporal's SDK", ("temporalio/",)),
    ("event loop", ("asyncio/", "concurrent/")),
)
OTHER = "other"
PARTS = (*(name for name, _ in _PARTS), OTHER)


class NoSamples(Exception):
    """Nothing could be seen of a process; the message says why."""


@asynccontextmanager
async def sampling(pid: int, folder: Path) -> AsyncGenerator[Path]:
    """Look at a process while the block runs; the file is whole after it: a line for each stack, and how often it was seen.

    Raises:
        NoSamples: py-spy is not there or may not look.
    """
    file = folder / f"samples-{pid}.txt"
    program = Path(sys.executable).with_name("py-spy")
    options = ("--pid", str(pid), "--rate", str(_PER_SECOND), "--duration", "3600", "--gil", "--format", "raw")
    if not program.exists():
        raise NoSamples(f"{program} is not there; `make install` installs it")
    process = await asyncio.create_subprocess_exec(
        str(program), "record", *options, "--output", str(file),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await asyncio.sleep(_START_S)
    if process.returncode is None:
        yield file
        process.send_signal(signal.SIGINT)
    _, said = await process.communicate()
    if not file.exists():
        raise NoSamples(f"py-spy saw nothing: {said.decode(errors='replace').strip()}")


def shares(lines: Iterable[str]) -> dict[str, float]:
    """The share of samples by `PARTS`: whose code a stack ends in; of libraries that nobody is named for, its caller's.

    Args:
        lines: frames from the outermost on, separated by ";", then a space and a count.
    """
    seen: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        seen[_part(stack.split(";"))] += int(count)
    total = seen.total() or 1
    return {part: seen[part] / total for part in PARTS}


def _part(frames: list[str]) -> str:
    for frame in reversed(frames):
        for name, paths in _PARTS:
            if any(path in frame for path in paths):
                return name
    return OTHER
