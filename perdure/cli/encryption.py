"""`perdure encryption`: making keys, seeing which are needed, sealing again what is stored."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated

import typer

from perdure.cli import exits
from perdure.cli.connection import Store, open_store
from perdure.cli.output import put, put_json, put_table, say
from perdure.cli.parameters import AsJson
from perdure.errors import InvalidInput
from perdure.store.encryption_keys import forget_keys, noted_keys
from perdure.store.keyring import VARIABLE, new_key
from perdure.store.rotating import count_sealed, reseal
from perdure.upp.json_value import JSONObject

app = typer.Typer(
    help="Make keys that seal what is stored, see which are needed, and seal again under a new one.",
    no_args_is_help=True,
    add_completion=False,
)

Closed = Annotated[bool, typer.Option("--closed", help="Look also into the histories of executions that have ended.")]


@app.command("new-key")
def make(
    name: Annotated[str | None, typer.Option("--id", help="The key's id; by default today's date.")] = None,
) -> None:
    """Make a random key and show it. It is kept nowhere."""
    put(f"{new_key(name or f'{datetime.now(UTC):%Y-%m-%d}')}\n")
    say(f"put it before the other keys of {VARIABLE}, separated by a comma; without it what it sealed is lost")


@app.command()
def status(closed: Closed = False, as_json: AsJson = False) -> None:
    """Show which keys the database and Temporal's histories need. The first key seals, the others only open."""
    asyncio.run(_status(closed=closed, as_json=as_json))


@app.command()
def rotate(as_json: AsJson = False) -> int:
    """Seal all that is stored under the first key; cut off, it goes on where it was.

    Exits with 1 if another key is still needed, for histories of open sessions.
    """
    return asyncio.run(_rotate(as_json=as_json))


async def _status(*, closed: bool, as_json: bool) -> None:
    async with open_store() as store:
        keys = [*dict.fromkeys([*store.database.keyring.ids, *await noted_keys(store.database)])]
        counts = {name: sum((await count_sealed(store.database, name)).values()) for name in keys}
        histories = await _histories(store, closed=closed)
        first = store.database.keyring.first
    rows: list[JSONObject] = [
        {"id": name, "seals": name == first, "values": counts[name], "histories": histories[name]} for name in keys
    ]
    if as_json:
        put_json({"keys": [*rows], "closed": closed})
    elif rows:
        lines = [
            [str(row["id"]), "yes" if row["seals"] else "", str(row["values"]), str(row["histories"])] for row in rows
        ]
        put_table(["KEY", "SEALS", "VALUES", "HISTORIES"], lines)
    else:
        say(f"nothing is sealed here, and {VARIABLE} is not set; `perdure encryption new-key` makes a key")


async def _rotate(*, as_json: bool) -> int:
    async with open_store() as store:
        keyring = store.database.keyring
        if keyring.first is None:
            raise InvalidInput(f"{VARIABLE} is not set; there is no key to seal with: `perdure encryption new-key`")
        done = await reseal(store.database, told=lambda _place, _count: None if as_json else say(f"{_place}: {_count}"))
        others = [name for name in await noted_keys(store.database) if name != keyring.first]
        histories = await _histories(store, closed=False)
        left = {name: sum((await count_sealed(store.database, name)).values()) for name in others}
        needed = {name: histories[name] for name in others if histories[name] or left[name]}
        await forget_keys(store.database, [name for name in others if name not in needed])
    if as_json:
        put_json({"key": keyring.first, "sealed": {**done}, "needed": {**needed}, "left": {**left}})
    else:
        put("".join(f"{name}: {count} sealed again\n" for name, count in done.items()))
        for name, count in needed.items():
            put(f"key {name} is still needed: {count} open sessions have it in their histories")
            put(f", and another process has sealed {left[name]} values under it meanwhile\n" if left[name] else "\n")
        for name in others:
            if name not in needed:
                put(f"key {name} is not needed any more, but to read the histories of sessions that have ended\n")
    return exits.FAILED if needed else exits.OK


async def _histories(store: Store, *, closed: bool) -> Counter[str]:
    from perdure.runtime.history_keys import count_histories
    from perdure.runtime.temporal import connect_temporal

    client = await connect_temporal(store.addresses.temporal, store.settings.temporal_namespace)
    return await count_histories(client, closed=closed)
