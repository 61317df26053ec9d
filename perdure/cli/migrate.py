"""`perdure migrate`: bring the database to this version's schema."""

from __future__ import annotations

import asyncio

import typer

from perdure.cli.connection import known_addresses, open_database
from perdure.cli.output import put, put_json
from perdure.cli.parameters import AsJson
from perdure.config import load_settings
from perdure.migrations import migrate as migrations

app = typer.Typer(add_completion=False)


@app.command()
def migrate(as_json: AsJson = False) -> None:
    """Bring the database to this version's schema; harmless if it is there already."""
    before, after = asyncio.run(_migrate(known_addresses(load_settings()).database_url))
    if as_json:
        put_json({"before": before, "after": after})
    elif before == after:
        put(f"the schema is at revision {after}, as this version needs it\n")
    else:
        put(f"the schema went from {before or 'nothing'} to revision {after}\n")


async def _migrate(url: str) -> tuple[str | None, str]:
    async with open_database(url) as database:
        return await migrations.migrate(database)
