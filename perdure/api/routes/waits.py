"""What parked runs wait for, and the answers: of operators, and of clients that run tools."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from perdure.api import shapes
from perdure.api.access import Approver, Caller, Reader, Runner
from perdure.api.answers import Answer, page
from perdure.api.cursors import read_time_cursor, to_cursor
from perdure.api.models import AnswerWait, ToolOutcome
from perdure.api.parameters import Cursor, Limit, RunId, WaitId, known_run_id, known_wait_id
from perdure.api.problems import Refused
from perdure.errors import UnknownWait
from perdure.runtime.shown import wait_json
from perdure.store.runs import find_run
from perdure.store.waits import WaitRow, open_waits
from perdure.upp.json_value import JSONObject

router = APIRouter(prefix="/api", tags=["waits"])

CLIENT_TOOL = "client_tool"


@router.get("/waits", operation_id="listWaits", response_model=shapes.Waits)
async def list_page(
    caller: Reader,
    session: Annotated[str | None, Query(description="Only of this session and its sub-agents'.")] = None,
    after: Cursor = None,
    limit: Limit = 100,
) -> Answer:
    """List what has no answer yet, oldest first, sub-agents' waits too."""
    place = None if after is None else read_time_cursor(after)
    named = None if session is None else caller.key(session).session
    rows = await open_waits(caller.database, caller.tenant, named, after=place, limit=limit)
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else to_cursor(last.asked_at.isoformat(), last.id)
    return page("waits", [wait_json(row) for row in rows], following)


@router.post("/waits/{wait}", operation_id="answerWait", response_model=shapes.AnsweredWait)
async def answer(caller: Approver, wait: WaitId, body: AnswerWait) -> Answer:
    """Answer a wait, once; its run goes on."""
    return await _give(caller, known_wait_id(wait), body.answer)


@router.post(
    "/runs/{run}/tool-results/{call_id:path}", operation_id="giveToolResult", response_model=shapes.AnsweredWait
)
async def give_result(caller: Runner, run: RunId, call_id: str, body: ToolOutcome) -> Answer:
    """Give the result of a tool that the client runs."""
    row = await find_run(caller.database, caller.tenant, known_run_id(run))
    waits = await open_waits(caller.database, caller.tenant, row.key.session)
    own = (wait for wait in waits if wait.run == row.id and wait.kind == CLIENT_TOOL)
    found = next((wait for wait in own if wait.asked.get("call") == call_id), None)
    if found is None:
        raise Refused(404, "unknown_wait", f"run {row.id} waits for no result of tool call {call_id[:80]!r}")
    return await _give(caller, found.id, {"result": body.result, "isError": body.is_error})


async def _give(caller: Caller, wait: str, given: JSONObject) -> Answer:
    try:
        row: WaitRow = await caller.sessions.answer(wait, given, by=caller.principal.name)
    except UnknownWait as error:
        raise Refused(404, "unknown_wait", str(error)) from error
    return Answer({**wait_json(row), "answer": row.answer, "answered_by": row.answered_by})
