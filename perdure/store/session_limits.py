"""A session's limits, what its runs have used of them, and how long a run has taken."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.uap.recorded_usage import total_usage
from perdure.uap.session_key import SessionKey
from perdure.uap.session_limits import SessionLimits, SessionUsed, limits_of

_USED = "select perdure.session_used_v1(:tenant, :session)"


async def read_limits(database: Database, key: SessionKey) -> tuple[SessionLimits | None, SessionUsed]:
    """The limits of a session, and what its runs that have ended have used."""
    answer = await database.call("session_used_v1", key.tenant, key.session)
    return _read(cast("dict[str, Any] | None", answer))


async def check_limits(connection: AsyncConnection, key: SessionKey) -> None:
    """See that another run may be handed in.

    Raises:
        SessionLimitReached: the session's runs have used all that they may.
    """
    limits, used = _read(await connection.scalar(text(_USED), {"tenant": key.tenant, "session": key.session}))
    if limits is not None:
        limits.check(used, key.session)


def _read(found: dict[str, Any] | None) -> tuple[SessionLimits | None, SessionUsed]:
    if found is None:
        return None, SessionUsed()
    by_agent = cast("dict[str, dict[str, Any]]", found["usage_by_agent"] or {})
    usage = total_usage(by_agent.values())
    return limits_of(found["limits"]), SessionUsed.by(int(found["steps"]), usage, float(found["seconds"]))


async def run_seconds(database: Database, key: SessionKey, run: str) -> float:
    """Seconds that a run has taken, without those in which it was parked."""
    async with database.driver() as connection:
        found = await connection.fetchval("select perdure.run_seconds_v1($1, $2, $3)", key.tenant, key.session, run)
    return max(0.0, float(found or 0.0))
