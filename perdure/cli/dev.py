"""`perdure dev`: everything for one folder in one terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from datetime import timedelta

import typer

from perdure.cli.output import say
from perdure.cli.parameters import Target
from perdure.config import Settings, load_settings
from perdure.embedded.dev import Development, develop
from perdure.embedded.folder import NAME
from perdure.errors import InvalidInput
from perdure.uap.app import App
from perdure.worker.registry import load_app

_BEYOND_GRACE = timedelta(seconds=5)  # a worker ends itself 3 s after its grace time

app = typer.Typer(add_completion=False)


@app.command()
def dev(target: Target) -> None:
    """Start all of it for this folder: servers, schema, worker. One terminal, one machine.

    Ctrl-C stops the worker, then the servers. Runs and sessions stay in .perdure and go on at the next start.
    """
    settings = load_settings()
    if settings.data_folder.name != NAME:
        raise InvalidInput(f"PERDURE_DATA_FOLDER is {str(settings.data_folder)!r}; its last part must be {NAME!r}")
    served = load_app(target)
    if not len(served):
        raise InvalidInput(f"{target} has no agents; App(agents=[...]) needs at least one")
    _say_what(served, settings)
    command = [sys.executable, "-m", "perdure.cli.main", "worker", target, "--parent", str(os.getpid())]
    development = Development(settings.data_folder.parent, command, settings.shutdown_grace + _BEYOND_GRACE)
    asyncio.run(develop(development, _say))


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a closed terminal must not keep us from stopping what we started
        say(f"perdure dev: {line}", style="")


def _say_what(served: App, settings: Settings) -> None:
    """The limits of what is started, before anything is."""
    first = next((str(agent.name) for agent in served), "AGENT")
    _say(f'this is for one machine. Talk to it from another terminal: perdure run {first} "..."')
    if settings.temporal_address or settings.database_url:
        _say("it has servers of its own; commands go to those of PERDURE_TEMPORAL_ADDRESS and PERDURE_DATABASE_URL")
