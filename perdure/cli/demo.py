"""`perdure demo`: a run on real input, on real servers, whose worker is killed in the middle.

The parts: `demo_project` is the app, `demo_show` the course of events, `demo_worker` the process that dies,
`demo_timeline` what happened, `demo_figures` what it cost, `demo_screen` what is seen of it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perdure.cli.demo_project.folder import SAMPLE, list_folder
from perdure.cli.demo_project.report import one_line
from perdure.cli.demo_screen import Screen
from perdure.errors import InvalidInput

_ENDING = (signal.SIGTERM, signal.SIGHUP)


async def run_demo(folder: Path | None) -> int:
    """Audit a folder's TODO comments, kill the worker in the middle, and show that the run goes on.

    Args:
        folder: what to audit; a sample project by default. It is only read.

    Returns:
        0 if the run completed, survived the kill and did nothing twice; 1 if not; 128 and its number if a signal ended
        the demo.

    Raises:
        InvalidInput: `folder` is no folder that can be read.
        EmbeddedError: the servers cannot be started.
        ServerUnavailable: a worker does not start.
        RunError: the run failed, or does not end.
    """
    audited = _checked(folder)
    listing = await asyncio.to_thread(list_folder, audited)
    files = len(listing.files)
    screen = Screen()
    more = "" if listing.complete else "more than "
    screen.say(f"auditing the TODO comments of {one_line(str(audited))} ({more}{files} files)", style="bold")
    try:
        with _signals_cancel() as told:
            try:
                from perdure.cli.demo_show import show_demo  # loads for seconds; a wrong folder is said at once

                return await show_demo(audited, files, screen)
            except asyncio.CancelledError:
                if not told:
                    raise
                return 128 + told[0]
    finally:
        screen.close()


def _checked(folder: Path | None) -> Path:
    given = SAMPLE if folder is None else folder
    advice = "name the folder to audit, or none for the sample project"
    try:
        if not given.exists():
            raise InvalidInput(f"{given} does not exist; {advice}")
        if not given.is_dir():
            raise InvalidInput(f"{given} is no folder; {advice}")
    except OSError as error:
        raise InvalidInput(f"{given} cannot be read: {error.strerror}; {advice}") from error
    return given.resolve()


@contextmanager
def _signals_cancel() -> Generator[list[signal.Signals]]:
    """Turn SIGTERM and SIGHUP into a cancellation of this task, so that what was started is stopped; yields what came."""
    told: list[signal.Signals] = []
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None, "inside a coroutine"

    def stop(number: signal.Signals) -> None:
        if not told:  # a second one must not break off what the first one began
            task.cancel()
        told.append(number)

    for number in _ENDING:
        loop.add_signal_handler(number, stop, number)
    try:
        yield told
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
