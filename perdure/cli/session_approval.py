"""`perdure sessions approve`: the answer to the one approval that a session waits for, without looking up its id."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.activities.contracts import APPROVAL
from perdure.cli.connection import open_store
from perdure.cli.parameters import AsJson, SessionId
from perdure.cli.waits import By, read_json, settle
from perdure.errors import InvalidInput
from perdure.store.waits import open_waits
from perdure.upp.json_value import JSONObject


def approve(
    session: SessionId,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="All arguments, to be used in place of those asked about.")
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Approve the tool call that a session, or a sub-agent of it, waits to make; if there are several, see `waits`."""
    wait = asyncio.run(_find(session))
    edit: JSONObject = {} if arguments is None else {"arguments": read_json(arguments, "--arguments")}
    settle(wait, {"decision": "approve", **edit}, by, as_json=as_json)


async def _find(session: str) -> str:
    async with open_store() as store:
        key = store.key(session)
        found = [row for row in await open_waits(store.database, key.tenant, key.session) if row.kind == APPROVAL]
    if not found:
        raise InvalidInput(f"session {session} waits for no approval; `perdure waits list` shows what there is")
    if len(found) > 1:
        listed = "; ".join(f"{row.id} ({row.asked.get('tool')})" for row in found)
        raise InvalidInput(
            f"session {session} waits for {len(found)} approvals, name one: perdure waits approve WAIT: {listed}"
        )
    return found[0].id
