"""How much is open over all tenants, as one cheap read: partial indexes hold nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from perdure.store.database import Database

_COUNTS = """
select (select count(*) from perdure.runs where ended_at is null) as open_runs,
       (select count(*) from perdure.waits where answered_at is null) as open_waits,
       (select count(*) from perdure.inputs where state = 'queued') as queued_inputs,
       (select extract(epoch from clock_timestamp() - min(coalesce(not_before, created_at))) from perdure.inputs
         where state = 'queued' and (not_before is null or not_before <= clock_timestamp())) as oldest_s
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is open.

    Attributes:
        open_runs: runs that have begun and not ended.
        open_waits: questions without an answer.
        queued_inputs: inputs that nobody has taken, those that are not due yet too.
        oldest_queued_s: seconds for which the oldest of those has been due; 0 if none is.
    """

    open_runs: int
    open_waits: int
    queued_inputs: int
    oldest_queued_s: float


async def read_backlog(database: Database) -> Backlog:
    """What is open now."""
    async with database.reading() as connection:
        row = (await connection.execute(text(_COUNTS))).one()
    return Backlog(row.open_runs, row.open_waits, row.queued_inputs, max(0.0, float(row.oldest_s or 0)))
