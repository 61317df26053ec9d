"""Pause, resume and cancel: idempotent, from any state, answered with the state that was reached."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from perdure.api import shapes
from perdure.api.access import Runner
from perdure.api.answers import Answer
from perdure.api.parameters import RunId, SessionId, known_run_id
from perdure.runtime.control import Controlled
from perdure.store.runs import find_run

router = APIRouter(prefix="/api", tags=["control"])

_RECORDED: dict[int | str, dict[str, Any]] = {
    202: {"model": shapes.Recorded, "description": "It will be done as soon as a worker runs."}
}
WaitSeconds = Annotated[float, Query(ge=0, le=60, description="How long the state is waited for.")]


@router.post(
    "/sessions/{session}/pause", operation_id="pauseSession", response_model=shapes.Controlled, responses=_RECORDED
)
async def pause(caller: Runner, session: SessionId, wait_s: WaitSeconds = 5.0) -> Answer:
    """Pause a session: its run holds before the next model or tool call, and no input is taken."""
    return reached_answer(await caller.sessions.pause(session, wait_s=wait_s))


@router.post(
    "/sessions/{session}/resume", operation_id="resumeSession", response_model=shapes.Controlled, responses=_RECORDED
)
async def resume(caller: Runner, session: SessionId, wait_s: WaitSeconds = 5.0) -> Answer:
    """Let a paused session go on."""
    return reached_answer(await caller.sessions.resume(session, wait_s=wait_s))


@router.post(
    "/sessions/{session}/cancel", operation_id="cancelSession", response_model=shapes.Controlled, responses=_RECORDED
)
async def cancel_session(caller: Runner, session: SessionId, wait_s: WaitSeconds = 5.0) -> Answer:
    """Cancel a session's run and withdraw all that is queued."""
    return reached_answer(await caller.sessions.cancel_session(session, wait_s=wait_s))


@router.post("/runs/{run}/cancel", operation_id="cancelRun", response_model=shapes.Controlled, responses=_RECORDED)
async def cancel_run(caller: Runner, run: RunId, wait_s: WaitSeconds = 5.0) -> Answer:
    """Cancel a run; one that is still queued is withdrawn at once, one that has ended stays as it ended."""
    row = await find_run(caller.database, caller.tenant, known_run_id(run))
    return reached_answer(await caller.sessions.cancel(row.key.session, run=row.id, wait_s=wait_s))


def reached_answer(reached: Controlled) -> Answer:
    """What a control came to."""
    if reached.state == "recorded":
        return Answer({"state": "recorded", "run": reached.run, "withdrawn": [*reached.withdrawn]}, 202)
    return Answer(
        {
            "state": reached.state,
            "event": None if reached.event is None else reached.event.seq,
            "run": reached.run,
            "in_flight": [*reached.in_flight],
            "withdrawn": [*reached.withdrawn],
        }
    )
