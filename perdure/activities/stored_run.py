"""A run as its rows have it: what the user's functions around it are given, and how a turn of theirs is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from perdure.activities.contracts import Progress
from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.executions import executions_by_message
from perdure.store.json_text import escaped_json
from perdure.store.messages import StoredMessage
from perdure.store.run_messages import read_run_messages, usage_of
from perdure.uap.ids import derive_id
from perdure.uap.plan_steps import PlanStep
from perdure.uap.run_turn import run_turn
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.turn import Turn


class StoredRun:
    """A run as far as it has come.

    Attributes:
        stored: its rows, discarded ones too, in order.
        state: the strategy's, as after them.
    """

    def __init__(
        self, stored: list[StoredMessage], executions: Mapping[str, list[ToolExecution]], progress: Progress
    ) -> None:
        """Takes the run's rows, the records of their tool calls by row id, and where it stands."""
        self.stored = stored
        self._executions = executions
        texts = {item.id: item.message.text for item in stored}
        self.state = ExecutionState(
            step=progress.step,
            messages=[item.message for item in stored],
            metadata=dict(progress.metadata),
            tool_executions=[execution for item in stored for execution in executions.get(item.id, [])],
            usage=usage_of(stored),
            cycles=progress.cycles,
            done=progress.done,
            reasoning=[texts.get(ident, "") for ident in progress.reasoning],
            plan=None if progress.plan is None else [PlanStep.from_json(item) for item in progress.plan],
        )

    def turn(self, cycles: int, *, first: int = 0) -> Turn:
        """The turn of its rows from position `first` on.

        Raises:
            UPPError: INVALID_RESPONSE if there is no answer at all.
        """
        stored = [item for item in self.stored if item.position >= first]
        kept = [item for item in stored if not item.discarded]
        executions = [execution for item in kept for execution in self._executions.get(item.id, [])]
        return run_turn([item.message for item in kept], executions, usage_of(stored), cycles)

    def split(self, turn: Turn) -> tuple[list[StoredMessage], list[Message]]:
        """The rows of the run that a turn begins with, unchanged and in order, and the messages of the turn after them."""
        rows = {item.message.id: item for item in self.stored if not item.discarded}
        kept: list[StoredMessage] = []
        for message in turn.messages:
            item = rows.get(message.id)
            after = kept[-1].position if kept else -1
            if item is None or item.position <= after or item.message != message:
                break
            kept.append(item)
        return kept, list(turn.messages[len(kept) :])


async def read_stored_run(
    database: Database, writer: Writer, node: str, *, start: int, end: int | None, progress: Progress
) -> StoredRun:
    """A run's rows from position `start` up to, not including, `end`."""
    own = await read_run_messages(database, writer.key, writer.run, node, first=start, end=end)
    return StoredRun(own, await executions_by_message(database, writer.key, writer.run, own), progress)


def calls_of(message: Message) -> list[ToolCall]:
    """The tool calls of a message; of any but a model's there are none."""
    return list(message.tool_calls or ()) if isinstance(message, AssistantMessage) else []


def turned_rows(run: str, step: int, kind: str, messages: Sequence[Message]) -> tuple[list[JSONObject], list[bytes]]:
    """The rows of messages that a turn has and its run had not, and their stored bodies.

    Args:
        run: its id.
        step: the step after which they come.
        kind: who made the turn; part of the rows' ids, which are the same for the same turn.
        messages: oldest first.
    """
    bodies = [_body(message) for message in messages]
    rows: list[JSONObject] = [
        {
            "id": derive_id(run, kind, place),
            "step": step,
            "type": str(message.type),
            "sha256": sha256_hex(body),
        }
        for place, (message, body) in enumerate(zip(messages, bodies, strict=True))
    ]
    return rows, bodies


def _body(message: Message) -> bytes:
    """Results are read from stored bodies as PostgreSQL writes them, so they are written so, too."""
    document = message.to_json()
    if isinstance(message, ToolResultMessage):
        return escaped_json(cast(object, document)).encode("ascii")
    return dumps(document)
