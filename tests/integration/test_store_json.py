"""What PostgreSQL makes of the store's JSON: it takes all of it, looks into it, and gives it back unchanged."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.upp.json_value import JSONValue
from tests.integration.stack import Stack
from tests.unit.store.strategies import joined, nasty_values

LOOK = "select v, v #>> '{}', json_build_object('d', v) -> 'd' from json_array_elements($1) as e(v)"


async def given_back(url: str, values: list[JSONValue]) -> list[tuple[JSONValue, JSONValue]]:
    """Each value as it stands in the array, and as a function that moves it about gives it out."""
    database = Database(url, pool_size=1)
    try:
        async with database.driver() as connection:
            rows = await connection.fetch(LOOK, escaped_json(values))
        return [(row[0], row[2]) for row in rows]
    finally:
        await database.close()


def test_postgres_takes_whatever_json_there_is(stack: Stack) -> None:
    """NUL, lone surrogates, the store's own mark: stored as json, its fields can be asked for, none comes back otherwise."""

    @given(st.lists(nasty_values.map(joined), min_size=30, max_size=40))
    @settings(max_examples=10, deadline=None)
    def holds(values: list[JSONValue]) -> None:
        found = asyncio.run(given_back(stack.addresses.database_url, values))
        assert found == [(value, value) for value in values]

    holds()
