"""A run that has ended, as its rows tell when what of it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select

from perdure.store.database import Database
from perdure.store.tables import checkpoints, runs, sessions
from perdure.uap.session_key import SessionKey

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step: its number, and its times in nanoseconds since 1970."""

    number: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run; times in nanoseconds since 1970, steps in order."""

    tenant: str
    session: str
    agent: str
    agent_id: str
    began_ns: int
    ended_ns: int
    steps: list[EndedStep] = field(default_factory=list[EndedStep])


async def was_open(database: Database, key: SessionKey, run: str) -> bool:
    """Whether a run has begun and not ended."""
    mine = (runs.c.tenant_id == key.tenant) & (runs.c.session_id == key.session) & (runs.c.id == run)
    async with database.transaction() as connection:
        return (await connection.execute(select(runs.c.id).where(mine, runs.c.ended_at.is_(None)))).first() is not None


async def read_ended_run(database: Database, key: SessionKey, run: str, *, last_step: int) -> EndedRun:
    """A run with its steps: each lasts from the checkpoint before it to its own, the last one to the run's end at most.

    Args:
        database: the store.
        key: the session.
        run: it has ended.
        last_step: the number of the step that was begun last; it need not have come to its checkpoint.
    """
    mine = (runs.c.tenant_id == key.tenant) & (runs.c.session_id == key.session) & (runs.c.id == run)
    joined = runs.join(sessions, (sessions.c.tenant_id == runs.c.tenant_id) & (sessions.c.id == runs.c.session_id))
    asked = select(sessions.c.agent, sessions.c.agent_id, runs.c.started_at, runs.c.ended_at).select_from(joined)
    marks = select(checkpoints.c.step, checkpoints.c.at).where(
        checkpoints.c.tenant_id == key.tenant, checkpoints.c.session_id == key.session, checkpoints.c.run_id == run
    )
    async with database.transaction() as connection:
        row = (await connection.execute(asked.where(mine))).one()
        ended = {int(mark.step): _ns(mark.at) for mark in (await connection.execute(marks)).all()}
    began_ns, ended_ns = _ns(row.started_at), _ns(row.ended_at)
    steps: list[EndedStep] = []
    for number in sorted({*ended, last_step} - {0}):
        since = steps[-1].ended_ns if steps else began_ns
        steps.append(EndedStep(number, since, max(since, ended.get(number, ended_ns))))
    return EndedRun(key.tenant, key.session, str(row.agent), str(row.agent_id), began_ns, ended_ns, steps)


def _ns(at: Any) -> int:
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
    return round(moment.timestamp() * _NS)
