"""`perdure worker`: serve an app's agents."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.cli.connection import known_addresses
from perdure.cli.parameters import Target
from perdure.config import load_settings
from perdure.embedded.dev import end_with_parent
from perdure.worker.main import serve
from perdure.worker.registry import load_app

app = typer.Typer(add_completion=False)


@app.command()
def worker(
    target: Target,
    task_queue: Annotated[str | None, typer.Option(help="Serve this task queue, not the configured one.")] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve an app's agents until Ctrl-C or SIGTERM."""
    if parent is not None:
        end_with_parent(parent)
    settings = load_settings(task_queue=task_queue)
    served = load_app(target)
    return asyncio.run(serve(served, settings, known_addresses(settings)))
