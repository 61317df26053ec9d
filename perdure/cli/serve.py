"""`perdure serve`: the HTTP API."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.api.serve import serve as serve_api
from perdure.cli.connection import known_addresses
from perdure.cli.worker import end_with
from perdure.config import load_settings

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Listen on this address, not on the configured one.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve the HTTP API until Ctrl-C or SIGTERM."""
    if parent is not None:
        end_with(parent)
    settings = load_settings(api_host=host, api_port=port)
    return asyncio.run(serve_api(settings, known_addresses(settings)))
