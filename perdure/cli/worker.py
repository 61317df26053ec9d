"""`perdure worker`: serve an app's agents."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from typing import Annotated

import typer
import uvloop

from perdure.cli.connection import known_addresses
from perdure.cli.parameters import Target
from perdure.config import load_settings
from perdure.worker.main import serve
from perdure.worker.registered import register_settings
from perdure.worker.registry import load_app

_PR_SET_PDEATHSIG = 1

app = typer.Typer(add_completion=False)


@app.command()
def worker(
    target: Target,
    task_queue: Annotated[str | None, typer.Option(help="Serve this task queue, not the configured one.")] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve an app's agents until Ctrl-C or SIGTERM."""
    if parent is not None:
        end_with(parent)
    settings = load_settings(task_queue=task_queue)
    register_settings(settings)
    served = load_app(target)
    with asyncio.Runner(
        loop_factory=uvloop.new_event_loop
    ) as runner:  # each step goes through the loop dozens of times
        return runner.run(serve(served, settings, known_addresses(settings)))


def end_with(parent: int) -> None:
    """Have the kernel send us SIGTERM when our parent dies, also by SIGKILL. Linux only, as the embedded servers are.

    Else the worker of a killed `perdure dev` would go on to serve yesterday's code beside the next one's.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), signal.SIGTERM)
