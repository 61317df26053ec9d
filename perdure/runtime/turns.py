"""A run's turn, or the error that it ended with."""

from __future__ import annotations

from perdure.activities.border import from_description
from perdure.errors import RunCancelled
from perdure.store.completed_turns import completed_turn
from perdure.store.database import Database
from perdure.store.runs import RunRow
from perdure.upp.turn import Turn


async def read_turn(database: Database, run: RunRow) -> Turn:
    """The turn of a completed run.

    Raises:
        PerdureError: what failed the run, with its own type.
        RunCancelled: the run was cancelled.
    """
    if run.status == "failed":
        raise from_description(run.error or {"type": "RunError", "message": "the run failed"})
    if run.status == "cancelled":
        raise RunCancelled("the run was cancelled", run_id=run.id)
    return await completed_turn(database, run)
