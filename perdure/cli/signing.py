"""`perdure signing`: the keys that sign responses, as the database keeps them. They are made here, and by no route."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from perdure.cli.connection import open_store
from perdure.cli.output import put, put_json, put_table, say
from perdure.cli.parameters import AsJson
from perdure.errors import InvalidInput
from perdure.runtime.shown import iso
from perdure.runtime.signing_keys import PUBLISHED_BEFORE, keep_new_key, signing_first
from perdure.store.signing_keys import StoredKey, delete_signing_key, read_signing_keys
from perdure.upp.json_value import JSONObject

app = typer.Typer(
    help="List, follow up and forget the keys that sign responses.", no_args_is_help=True, add_completion=False
)


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the keys that the database keeps, newest first, and say which one signs."""
    _show(asyncio.run(_read()), as_json=as_json)


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Make a key that follows the present one. It is published at once and signs once everybody can know it."""
    rows = asyncio.run(_rotate())
    _show(rows, as_json=as_json)
    if not as_json and len(rows) > 1:
        minutes = PUBLISHED_BEFORE.total_seconds() / 60
        say(f"the new key signs in {minutes:g} minutes; the others verify what they signed until they are forgotten")


@app.command()
def forget(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as the header of a signature names it.")],
    as_json: AsJson = False,
) -> None:
    """Delete a key that signs no more. Nobody can verify then what it has signed, but who has kept its public part."""
    asyncio.run(_forget(key))
    if as_json:
        put_json({"forgotten": key})
    else:
        put(f"key {key} is forgotten\n")


async def _read() -> list[StoredKey]:
    async with open_store() as store:
        return await read_signing_keys(store.database)


async def _rotate() -> list[StoredKey]:
    async with open_store() as store:
        return await keep_new_key(store.database, only_first=False)


async def _forget(key: str) -> None:
    async with open_store() as store:
        rows = await read_signing_keys(store.database)
        if key not in [row.id for row in rows]:
            raise InvalidInput(f"there is no signing key {key!r}; `perdure signing list` shows those there are")
        if signing_first(rows, datetime.now(UTC))[0].id == key:
            raise InvalidInput(
                f"key {key} signs now; let another follow it first: `perdure signing rotate`, and wait until that one signs"
            )
        await delete_signing_key(store.database, key)


def _show(rows: list[StoredKey], *, as_json: bool) -> None:
    signs = signing_first(rows, datetime.now(UTC))[0].id if rows else None
    shown: list[JSONObject] = [{"id": row.id, "made_at": iso(row.made_at), "signs": row.id == signs} for row in rows]
    if as_json:
        put_json({"keys": [*shown]})
    elif not rows:
        say(
            "there is no signing key yet; the first response that is signed makes one, and so does `perdure signing rotate`"
        )
    else:
        put_table(
            ("key", "made at", "signs"), [[row["id"], row["made_at"], "yes" if row["signs"] else ""] for row in shown]
        )
