"""`perdure worker` and `perdure migrate`: what a deployment runs."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.cli.connection import known_addresses
from perdure.config import load_settings

Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app, for example agents:app.")]


def worker(
    target: Target,
    task_queue: Annotated[str | None, typer.Option(help="Serve this task queue instead of the configured one.")] = None,
) -> int:
    """Serve an app's agents until Ctrl-C or SIGTERM."""
    from perdure.worker.main import serve
    from perdure.worker.registry import load_app

    settings = load_settings(task_queue=task_queue)
    app = load_app(target)
    return asyncio.run(serve(app, settings, known_addresses(settings)))


def migrate() -> None:
    """Bring the database to this version's schema."""
    before, after = asyncio.run(_migrate(known_addresses(load_settings()).database_url))
    if before == after:
        typer.echo(f"the schema is at {after}, as this version needs it")
    else:
        typer.echo(f"the schema went from {before or 'nothing'} to {after}")


async def _migrate(url: str) -> tuple[str | None, str]:
    from perdure.cli.connection import open_database
    from perdure.migrations.migrate import migrate

    async with open_database(url) as database:
        return await migrate(database)
