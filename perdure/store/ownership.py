"""Whose session it is: an agent's, and while the run or the stage session that called it waits for it, that one's alone."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import KeyConflict, RunActive, WrongAgent
from perdure.store.accepted import by_key
from perdure.store.session_limits import check_limits
from perdure.store.tables import inputs, runs, sessions, stage_actions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


async def check_owner(connection: AsyncConnection, key: SessionKey, agent: str) -> None:
    """See that the session is the agent's, that no run of its parent's has it, and that its runs may use more.

    Raises:
        SessionLimitReached: they have used all that they may.
        WrongAgent: it is another agent's.
        RunActive: it is a sub-agent's, and the run that called it is open; or its run is a task of a stage session, and
            has not been answered there.
    """
    query = select(sessions.c.agent, sessions.c.parent_session, sessions.c.parent_run, sessions.c.limits)
    row = (
        await connection.execute(query.where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session))
    ).one()
    if row.agent != agent:
        raise WrongAgent(f"session {key.session} belongs to agent {row.agent!r}, not {agent!r}; use that agent")
    await check_parent(connection, key, row.parent_session, row.parent_run)
    if row.limits is not None:
        await check_limits(connection, key)


async def check_parent(connection: AsyncConnection, key: SessionKey, session: str | None, run: str | None) -> None:
    """See that no run of its parent's has a session, and no action of a stage session.

    Raises:
        RunActive: one has.
    """
    await _check_stage(connection, key)
    if session is None or run is None:
        return
    query = select(runs.c.ended_at).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == session, runs.c.id == run
    )
    parent = (await connection.execute(query)).first()
    if parent is not None and parent.ended_at is None:
        raise RunActive(
            f"session {key.session} is a sub-agent's, and run {run} of session {session}, which called it, is open; "
            "submit to that session, or wait for the run's end",
            run_id=run,
        )


def stage_task(session: str, ordinal: int) -> JSONObject:
    """What the row of an input says whose run is a task: of which action of which stage session."""
    return {"stage_session": session, "stage_action": ordinal}


async def check_task(connection: AsyncConnection, key: SessionKey, name: str, stage: tuple[str, int]) -> None:
    """See that nobody else has opened the session of a task, whose id can be told from its stage session's.

    Args:
        connection: of the transaction.
        key: the session, which is there.
        name: the key of the input that is the task's.
        stage: stage session and ordinal of its action.

    Raises:
        KeyConflict: it is not that action's.
    """
    known = await by_key(connection, key, name)
    if known is None or known.detail != stage_task(*stage):
        raise KeyConflict(
            f"session {key.session} is not that of action {stage[1]} of stage session {stage[0]}, whose id it has; "
            "delete it"
        )


async def _check_stage(connection: AsyncConnection, key: SessionKey) -> None:
    """Whoever could write to an agent whose word counts in a stage session could have it say what they like."""
    first = select(inputs.c.detail, inputs.c.run_id).where(
        inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.ordinal == 1
    )
    row = (await connection.execute(first)).first()
    detail: JSONObject = {} if row is None or row.detail is None else row.detail
    if row is None or "stage_session" not in detail:
        return
    query = select(stage_actions.c.id).where(
        stage_actions.c.tenant_id == key.tenant,
        stage_actions.c.session_id == detail["stage_session"],
        stage_actions.c.ordinal == detail["stage_action"],
        stage_actions.c.state != "settled",
    )
    if await connection.scalar(query) is not None:
        raise RunActive(
            f"session {key.session} is an agent's whose run is a task of stage session {detail['stage_session']}, "
            "which waits for it; wait for that action's end",
            run_id=row.run_id,
        )
