"""The answer to an input that was stored: at once, with the run's end, or as the stream of its events."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from fastapi import Response

from perdure.api import shapes
from perdure.api.access import Caller
from perdure.api.answers import Answer, run_path
from perdure.api.models import Answered, Mode
from perdure.api.streams import run_response
from perdure.api.waiting import within
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.shown import accepted_json, run_json
from perdure.runtime.turns import read_turn
from perdure.store.runs import TERMINAL, RunRow
from perdure.upp.json_value import JSONObject

PARKED = "parked"
_REMOTE = "remote"
_RUN_PARKED = "run.parked"

SUBMITTED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": shapes.Run,
        "description": "The run, which has ended. In mode stream its events, up to and with the one that ends it.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    202: {
        "description": "It is stored and will be run. In mode wait: it has not ended in time, or waits for somebody.",
        "headers": {"Location": {"description": "Where the run is.", "schema": {"type": "string"}}},
    },
}
"""What a route that takes an input may answer, for the OpenAPI document."""


async def give(caller: Caller, handle: RunHandle, asked: Answered) -> Response:
    """Answer as the request asked. One that was made before, and whose run has ended, is answered with its end.

    A run in the background is answered as taken, even if it has ended by now: a client gets one status for one request.

    Args:
        caller: who asked.
        handle: of the run.
        asked: the request's body.
    """
    caller.backend.metrics.runs.labels(asked.mode.value).inc()
    place = {"Location": run_path(handle.id)}
    if asked.mode is Mode.STREAM:
        return await run_response(caller, handle.id, headers=place)
    if asked.mode is Mode.WAIT:
        await within(caller.backend, _end_or_rest(handle), asked.wait_s)
    row = await handle.status()
    if row.status in TERMINAL and (asked.mode is Mode.WAIT or handle.accepted.repeated):
        return Answer(await run_document(caller, row), 200, place)
    return Answer({**accepted_json(handle.accepted), "status": row.status}, 202, place)


async def run_document(caller: Caller, row: RunRow) -> JSONObject:
    """A run, with its turn if it is completed."""
    turn = (await read_turn(caller.database, row)).to_json() if row.status == "completed" else None
    return {**run_json(row), "turn": turn}


async def _end_or_rest(handle: RunHandle) -> None:
    """Return when the run has ended or waits for somebody."""
    if (await handle.status()).status in TERMINAL:
        return
    async with aclosing(handle.events()) as events:
        async for event in events:
            if event.type != _RUN_PARKED or event.data.get("reason") == _REMOTE:  # then nobody is to do anything
                continue
            if (await handle.status()).status == PARKED:
                return
