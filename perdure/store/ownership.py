"""Whose session it is: an agent's, and while the run that called it is open, that run's alone."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import RunActive, WrongAgent
from perdure.store.session_limits import check_limits
from perdure.store.tables import runs, sessions
from perdure.uap.session_key import SessionKey


async def check_owner(connection: AsyncConnection, key: SessionKey, agent: str) -> None:
    """See that the session is the agent's, that no run of its parent's has it, and that its runs may use more.

    Raises:
        SessionLimitReached: they have used all that they may.
        WrongAgent: it is another agent's.
        RunActive: it is a sub-agent's, and the run that called it is open.
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
    """See that no run of its parent's has a session.

    Raises:
        RunActive: it is a sub-agent's, and the run that called it is open.
    """
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
