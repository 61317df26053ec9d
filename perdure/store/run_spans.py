"""Where a run's events stand in its session's log."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.store.database import Database
from perdure.store.events import read_last_seqs
from perdure.store.runs import TERMINAL, find_run
from perdure.uap.session_key import SessionKey


@dataclass(frozen=True, slots=True)
class RunSpan:
    """The part of a session's event log in which a run's events are.

    Attributes:
        key: the session.
        run: whose events they are: an input that joined another run has that one's.
        before: no event of the run has this number or a smaller one.
        last: the number of its terminal event; None if it has not ended.
    """

    key: SessionKey
    run: str
    before: int
    last: int | None


async def read_run_span(database: Database, tenant: str, run: str) -> RunSpan:
    """The span of a run by id, also of one that is queued, was withdrawn, or became part of another.

    Raises:
        UnknownRun: there is none for this tenant.
    """
    row = await find_run(database, tenant, run)
    newest = (await read_last_seqs(database, [row.key])).get(row.key, 0)
    row = await find_run(database, tenant, run)  # if it has no event yet, its first one comes behind `newest`
    first, last = await _ends(database, row.key, row.id)
    known = [seq for seq in (first, row.first_seq) if seq is not None]
    before = min(known) - 1 if known else newest
    return RunSpan(row.key, row.id, before, last if row.status in TERMINAL else None)


async def _ends(database: Database, key: SessionKey, run: str) -> tuple[int | None, int | None]:
    """The first and the last number of the events that tell when a run was handed in and how it ended."""
    sql = (
        "select min(seq) as first, max(seq) as last from perdure.events "
        "where tenant_id = $1 and session_id = $2 and run_id = $3 "
        "and type in ('run.queued', 'run.completed', 'run.failed', 'run.cancelled')"
    )
    async with database.driver() as connection:
        row = await connection.fetchrow(sql, key.tenant, key.session, run)
    assert row is not None, "an aggregate has one row"
    return row["first"], row["last"]
