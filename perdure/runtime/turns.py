"""A run's turn, put together from what is stored."""

from __future__ import annotations

from perdure.activities.border import from_description
from perdure.errors import RunCancelled, RunError
from perdure.store.database import Database
from perdure.store.executions import read_executions
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.runs import RunRow, read_given_turn
from perdure.uap.cut import NAMESPACE
from perdure.uap.run_turn import run_turn
from perdure.upp.messages import Message
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage


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
    if run.node is None or run.start_position is None:
        raise RunError(f"the run is {run.status}; it has no turn yet", run_id=run.id)
    given = await read_given_turn(database, run)
    if given is not None:
        return Turn.from_json(given)
    stored = await read_messages(database, run.key, run.node, first=run.start_position, discarded=True)
    own = [item for item in stored if item.run == run.id]
    kept = [item for item in own if not item.discarded and not _settled(item.message)] or own
    executions = await read_executions(database, run.key, run.id, kept)
    return run_turn([item.message for item in kept], executions, _usage(own), run.cycles)


def _settled(message: Message) -> bool:
    """Whether a message only closes tool calls that were never run."""
    return bool((message.metadata or {}).get(NAMESPACE, {}).get("settled"))


def _usage(messages: list[StoredMessage]) -> TokenUsage:
    return aggregate_usage([TokenUsage.from_json(item.usage) for item in messages if item.usage])
