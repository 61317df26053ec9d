"""`perdure limits`: the limits that all workers share, as they stand."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.cli.connection import open_store
from perdure.cli.output import put, put_json, put_table, say
from perdure.cli.parameters import AsJson
from perdure.config import load_settings
from perdure.runtime.shown import iso, limit_json
from perdure.store.limits import BucketRow, list_limits

app = typer.Typer(add_completion=False)


@app.command()
def limits(
    tenant: Annotated[str | None, typer.Option(help="Whose; the tenant of the settings by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the limits that all workers share: what is left of each, who holds permits of it, and who waits for one.

    A limit is shown from its first request on; the setting `limits` says which there are.
    """
    rows = asyncio.run(_list(load_settings(tenant=tenant).tenant))
    if as_json:
        put_json({"limits": [limit_json(row) for row in rows]})
    elif not rows:
        say("no limit has been asked for; the setting `limits` sets them")
    else:
        put_table(("limit", "a second", "tokens left", "held", "of", "waiting", "blocked until"), map(_cells, rows))
        leases = [(row, lease) for row in rows for lease in row.leases]
        if leases:
            put("\n")
            columns = ("limit", "state", "session", "run", "worker", "since")
            put_table(
                columns,
                [
                    [
                        _name(row),
                        lease.state,
                        lease.session,
                        lease.run,
                        lease.holder,
                        iso(lease.held_at or lease.asked_at),
                    ]
                    for row, lease in leases
                ],
            )


async def _list(tenant: str) -> list[BucketRow]:
    async with open_store() as store:
        return await list_limits(store.database, tenant)


def _name(row: BucketRow) -> str:
    return f"{row.name} {row.owner}" if row.name == "tenant" else row.name


def _cells(row: BucketRow) -> list[object]:
    tokens = None if row.tokens is None else f"{row.tokens:.1f}"
    rate = None if row.per_second is None else f"{row.per_second:g}"
    return [_name(row), rate, tokens, row.held, row.max_concurrent, row.waiting, iso(row.blocked_until)]
