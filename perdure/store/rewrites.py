"""Inputs that say what the thread is to be before them.

Until its turn comes such a row is of the kind `rewrite`, and its options hold the thread besides; then the thread is
made so, the row becomes a message as any other, and is taken next. It is one row: one key, one place, withdrawn whole.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.change_inputs import Turn
from perdure.store.inputs import CHANGED, MESSAGE, REWRITE, emit, outcome_note
from perdure.store.sealing import seal_in
from perdure.store.tables import inputs
from perdure.uap.events import run_event
from perdure.uap.rewriting import Rewrite
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, loads


async def read_rewrite(connection: AsyncConnection, key: SessionKey, turn: Turn) -> Rewrite:
    """What an input wants of the thread."""
    packed = await connection.scalar(select(inputs.c.options).where(*_of(key, turn)))
    return Rewrite.from_json(_part(packed, "rewrite"))


async def note_rewritten(connection: AsyncConnection, key: SessionKey, turn: Turn, data: JSONObject) -> None:
    """Say that the thread is what an input wants, which is a message as any other from now on.

    Args:
        connection: of the transaction that made it so.
        key: the session.
        turn: the input.
        data: of the event.
    """
    told: JSONObject = {"input": turn.ordinal, "kind": REWRITE, **data}
    await emit(connection, key, turn.run, [{**run_event(CHANGED, told), "n": outcome_note(turn.ordinal)}])
    packed = await connection.scalar(select(inputs.c.options).where(*_of(key, turn)))
    options = _part(packed, "options")
    sealed = seal_in(connection, key).row(inputs, {"options": dumps(options) if options else None})
    await connection.execute(update(inputs).where(*_of(key, turn)).values(kind=MESSAGE, **sealed))


def _part(packed: object, name: str) -> JSONObject:
    assert isinstance(packed, bytes), "the row of a rewrite has options"
    return cast(JSONObject, cast(JSONObject, loads(packed))[name])


def _of(key: SessionKey, turn: Turn) -> tuple[ColumnElement[bool], ...]:
    return (
        inputs.c.tenant_id == key.tenant,
        inputs.c.session_id == key.session,
        inputs.c.ordinal == turn.ordinal,
    )
