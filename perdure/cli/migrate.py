"""`perdure migrate`: bring the database to this version's schema, and to the keys that lists are filtered by."""

from __future__ import annotations

import asyncio

import typer

from perdure.cli.connection import known_addresses, open_database
from perdure.cli.output import put, put_json
from perdure.cli.parameters import AsJson
from perdure.config import load_settings
from perdure.migrations import migrate as migrations
from perdure.runtime.filterable import apply_filterable
from perdure.store.filterable_keys import list_filterable
from perdure.upp.json_value import JSONValue

app = typer.Typer(add_completion=False)


@app.command()
def migrate(as_json: AsJson = False) -> None:
    """Bring the database to this version's schema; harmless if it is there already.

    Lists of sessions can then be filtered by the keys of PERDURE_FILTERABLE_METADATA, if that is set.
    """
    before, after, filterable = asyncio.run(_migrate())
    if as_json:
        put_json({"before": before, "after": after, "filterable": dict[str, JSONValue](filterable)})
        return
    if before == after:
        put(f"the schema is at revision {after}, as this version needs it\n")
    else:
        put(f"the schema went from {before or 'nothing'} to revision {after}\n")
    if filterable:
        put(f"lists are filtered by {', '.join(f'{key} ({state})' for key, state in filterable.items())}\n")


async def _migrate() -> tuple[str | None, str, dict[str, str]]:
    settings = load_settings()
    addresses = known_addresses(settings)
    async with open_database(addresses.database_url, addresses.keyring) as database:
        before, after = await migrations.migrate(database)
        await apply_filterable(database, settings.filterable_metadata)
        return before, after, await list_filterable(database)
