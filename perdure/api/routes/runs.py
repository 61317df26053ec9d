"""Runs: handed in, followed or waited for, listed and shown."""

from __future__ import annotations

from fastapi import APIRouter, Response

from perdure.api import shapes
from perdure.api.access import Reader, Runner
from perdure.api.answers import Answer, page
from perdure.api.cursors import read_cursor, to_cursor
from perdure.api.inputs import to_history, to_message
from perdure.api.models import OpenRun, ResumeRun, SubmitRun
from perdure.api.openapi import PAYMENT_NEEDED
from perdure.api.parameters import Cursor, Key, Limit, RunId, SessionId, known_run_id
from perdure.api.payments import Paying, with_payment
from perdure.api.submitted import SUBMITTED, give, run_document
from perdure.runtime.shown import run_json
from perdure.store.pages import page_runs
from perdure.store.runs import find_run
from perdure.store.sessions import find_address, read_session

router = APIRouter(prefix="/api", tags=["runs"])


@router.post(
    "/runs",
    operation_id="openRun",
    status_code=202,
    response_model=shapes.Submitted,
    responses={**SUBMITTED, **PAYMENT_NEEDED},
)
async def open_run(caller: Runner, body: OpenRun, payment: Paying, key: Key = None) -> Response:
    """Hand in an input that opens a session. When the answer begins it is stored, and will be run whatever happens."""
    handle = await caller.sessions.submit(
        body.agent,
        to_message(body.input),
        key=key,
        options=await with_payment(caller, body.agent, payment, body.options.to_options()),
        policy=body.policy.value,
        not_before=body.start_after,
        title=body.title,
        metadata=body.metadata,
        history=to_history(body.history),
        limits=None if body.limits is None else body.limits.to_limits(),
    )
    return await give(caller, handle, body)


@router.post(
    "/sessions/{session}/runs",
    operation_id="submitRun",
    status_code=202,
    response_model=shapes.Submitted,
    responses={**SUBMITTED, **PAYMENT_NEEDED},
)
async def submit(caller: Runner, session: SessionId, body: SubmitRun, payment: Paying, key: Key = None) -> Response:
    """Hand in an input for a session. When the answer begins it is stored, and will be run whatever happens."""
    agent = body.agent or (await find_address(caller.database, caller.key(session))).name
    handle = await caller.sessions.submit(
        agent,
        to_message(body.input),
        session=session,
        key=key,
        options=await with_payment(caller, agent, payment, body.options.to_options()),
        policy=body.policy.value,
        not_before=body.start_after,
    )
    return await give(caller, handle, body)


@router.post(
    "/sessions/{session}/resume-run",
    operation_id="resumeRun",
    status_code=202,
    response_model=shapes.Submitted,
    responses=SUBMITTED,
)
async def resume_run(caller: Runner, session: SessionId, body: ResumeRun, key: Key = None) -> Response:
    """Go on with the run that a checkpoint is of, from the step after it, on a branch of its own."""
    options = None if body.options is None else body.options.to_options()
    handle = await caller.sessions.resume_run(session, body.checkpoint, options, key=key)
    return await give(caller, handle, body)


@router.get("/sessions/{session}/runs", operation_id="listRuns", response_model=shapes.Runs)
async def list_page(caller: Reader, session: SessionId, after: Cursor = None, limit: Limit = 50) -> Answer:
    """List a session's runs, newest first, those that are still queued too."""
    key = caller.key(session)
    await read_session(caller.database, key)
    before = None if after is None else int(read_cursor(after, int)[0])
    rows = await page_runs(caller.database, key, before=before, limit=limit)
    following = to_cursor(rows[-1].ordinal) if len(rows) == limit else None
    return page("runs", [run_json(row) for row in rows], following)


@router.get("/runs/{run}", operation_id="getRun", response_model=shapes.Run)
async def show(caller: Reader, run: RunId) -> Answer:
    """Show a run, with its turn once it is completed."""
    return Answer(await run_document(caller, await find_run(caller.database, caller.tenant, known_run_id(run))))
