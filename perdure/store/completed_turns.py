"""The turn of a run that was completed, whole."""

from __future__ import annotations

from perdure.errors import RunError
from perdure.store.database import Database
from perdure.store.executions import read_executions
from perdure.store.run_messages import read_run_messages, usage_of
from perdure.store.runs import RunRow, read_given_turn
from perdure.uap.cut import NAMESPACE
from perdure.uap.run_turn import run_turn
from perdure.upp.messages import Message
from perdure.upp.turn import Turn


async def completed_turn(database: Database, run: RunRow) -> Turn:
    """The turn that middleware put in place of the run's own, or else the one that its messages make.

    Raises:
        RunError: the run has not begun.
        DamagedSession: a body is missing or does not have its hash.
    """
    if run.node is None or run.start_position is None:
        raise RunError(f"the run is {run.status}; it has no turn yet", run_id=run.id)
    given = await read_given_turn(database, run)
    if given is not None:
        return Turn.from_json(given)
    own = await read_run_messages(database, run.key, run.id, run.node, first=run.start_position)
    kept = [item for item in own if item.is_of_turn and not _settled(item.message)] or own
    executions = await read_executions(database, run.key, run.id, kept)
    return run_turn([item.message for item in kept], executions, usage_of(own), run.cycles)


def _settled(message: Message) -> bool:
    """Whether a message only closes tool calls that were never run."""
    return bool((message.metadata or {}).get(NAMESPACE, {}).get("settled"))
