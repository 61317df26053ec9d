"""`perdure dev`: everything for one folder in one terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from datetime import timedelta
from typing import Annotated

import typer

from perdure.api.listener import bound, bound_datagrams
from perdure.cli.connection import known_keyring
from perdure.cli.output import say
from perdure.cli.parameters import Target, Tls
from perdure.cli.serve import secured
from perdure.config import Settings, load_settings
from perdure.embedded.dev import Development, develop
from perdure.embedded.folder import NAME
from perdure.errors import InvalidInput
from perdure.uap.app import App
from perdure.worker.registry import load_app

_BEYOND_GRACE = timedelta(seconds=5)  # a worker ends itself 3 s after its grace time

_PORTS = 100

app = typer.Typer(add_completion=False)


@app.command()
def dev(
    target: Target,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port of the API; by default 8700, or the next free one.")
    ] = None,
    api: Annotated[bool, typer.Option("--api/--no-api", help="Whether to serve the HTTP API.")] = True,
    tls: Tls = False,
) -> None:
    """Start all of it for this folder: servers, schema, worker and API. One terminal, one machine.

    Ctrl-C stops worker and API, then the servers. Runs and sessions stay in .perdure and go on at the next start.
    """
    settings = load_settings()
    if settings.data_folder.name != NAME:
        raise InvalidInput(f"PERDURE_DATA_FOLDER is {str(settings.data_folder)!r}; its last part must be {NAME!r}")
    served = load_app(target)
    if not len(served) and not served.workflows:
        raise InvalidInput(f"{target} is empty; App(agents=[...], workflows=[...]) needs at least one of either")
    commands = [sys.executable, "-m", "perdure.cli.main"]
    parent = ["--parent", str(os.getpid())]
    serving = None
    if api:
        place = _free_port(settings.api_host, port, settings.api_port, tls=tls)
        if tls:
            introduce(settings, place)
        serving = [*commands, "serve", "--port", str(place), *(["--tls"] if tls else []), *parent]
        if served.gate is not None or served.voice is not None:
            serving += ["--app", target]
    worker = [*commands, "worker", target, *parent]
    _say_what(served, settings)
    patience = settings.shutdown_grace + _BEYOND_GRACE
    development = Development(
        settings.data_folder.parent, worker, patience, serving, settings.filterable_metadata, known_keyring(settings)
    )
    asyncio.run(develop(development, _say))


def introduce(settings: Settings, port: int) -> None:
    """Have the worker know the API as other agents do: by its name, and by the authority of its certificate.

    Args:
        settings: of this process; what they leave open is put into the environment of those that it starts.
        port: of the API.
    """
    if settings.uamp_host is None:
        os.environ["PERDURE_UAMP_HOST"] = f"localhost:{port}"
    trusted = secured(settings).uamp_trust
    if trusted is not None:
        os.environ["PERDURE_UAMP_TRUST"] = str(trusted)


def _free_port(host: str, wanted: int | None, default: int, *, tls: bool) -> int:
    """The port of the API: the wanted one, else the first free one from the default on.

    Raises:
        InvalidInput: it is taken, or none is free.
    """
    if wanted is not None:
        _check_free(host, wanted, tls=tls)
        return wanted
    for port in range(default, min(default + _PORTS, 65536)):
        with contextlib.suppress(InvalidInput):
            _check_free(host, port, tls=tls)
            return port
    raise InvalidInput(
        f"no port of {host} from {default} on is free for the API; give one with --port, or use --no-api"
    )


def _check_free(host: str, port: int, *, tls: bool) -> None:
    """See that a port is free, over TLS for datagrams too.

    Raises:
        InvalidInput: it is not.
    """
    with bound(host, port) as listener:
        if tls:
            bound_datagrams(listener).close()


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a closed terminal must not keep us from stopping what we started
        say(f"perdure dev: {line}", style="")


def _say_what(served: App, settings: Settings) -> None:
    """The limits of what is started, before anything is."""
    first = next((str(agent.name) for agent in served), None)
    talk = "perdure stages workflows" if first is None else f'perdure run {first} "..."'
    _say(f"this is for one machine. Talk to it from another terminal: {talk}")
    if settings.temporal_address or settings.database_url:
        _say("it has servers of its own; commands go to those of PERDURE_TEMPORAL_ADDRESS and PERDURE_DATABASE_URL")
