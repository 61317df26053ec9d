"""A checkpoint as `uap`'s functions take it: of this session's rows, or as it came from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.activities.contracts import Progress
from perdure.activities.convert import converter
from perdure.activities.loaded_tree import LoadedTree
from perdure.store.checkpoints import CheckpointRow
from perdure.store.database import Database
from perdure.store.message_rows import put_messages
from perdure.store.messages import read_message
from perdure.store.payloads import read_payloads
from perdure.store.resumed import Stretch
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.ids import derive_id
from perdure.uap.scaffold import REASON, as_scaffold, scaffold_of
from perdure.uap.session_checkpoints import THREAD_LENGTH, Checkpoint
from perdure.uap.session_document import read_checkpoint
from perdure.uap.session_key import SessionKey
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, loads
from perdure.upp.messages import AssistantMessage, Message


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint that can be gone on from.

    Attributes:
        checkpoint: its messages stand for rows, or are whole if it came from elsewhere.
        rows: a name for each of its messages: that of its row, if it has one.
        stretch: where they stand; None if it came from elsewhere.
        lost_reasoning: texts of its first reasoning, of which no message is left.
    """

    checkpoint: Checkpoint
    rows: list[str]
    stretch: Stretch | None
    lost_reasoning: list[str]

    def progress(self, copies: Mapping[str, str], made: Stretch) -> Progress:
        """Where a run stands that goes on from a checkpoint from elsewhere, on a branch.

        Args:
            copies: ids of its messages there, by name.
            made: where they stand.
        """
        state = self.checkpoint.state
        told = [name for name, message in zip(self.rows, state.messages, strict=True) if _is_reasoning(message)]
        kept = len(state.reasoning) - len(self.lost_reasoning)
        return Progress(
            step=state.step,
            position=made.end,
            usage=_totals(state),
            cycles=state.cycles,
            metadata=state.metadata,
            done=state.done,
            reasoning=[
                *(derive_id(made.node, "reasoning", place) for place in range(len(self.lost_reasoning))),
                *(copies[name] for name in told[len(told) - kept :]),
            ],
            plan=None if state.plan is None else [step.to_json() for step in state.plan],
        )

    async def write_lost_reasoning(self, connection: AsyncConnection, key: SessionKey, node: str, run: str) -> None:
        """Write it before the run's first message: it is shown with the run's checkpoints, and never sent."""
        rows = [
            (derive_id(node, "reasoning", place), as_scaffold(AssistantMessage(text), REASON))
            for place, text in enumerate(self.lost_reasoning)
        ]
        await put_messages(connection, key, node, rows, run_id=run, discarded=True, scaffold=True)

    async def write_messages(
        self, connection: AsyncConnection, key: SessionKey, made: Stretch, run: str, rows: Sequence[tuple[str, Message]]
    ) -> None:
        """Write the messages of a checkpoint from elsewhere; what all of them used is noted with the last."""
        state = self.checkpoint.state
        for place, row in enumerate(rows):
            used = {"usage": _totals(state)} if place == len(rows) - 1 else {}
            own = bool(scaffold_of(row[1]))
            await put_messages(
                connection, key, made.node, [row], first=made.start + place, run_id=run, scaffold=own,
                step=state.step if place else 0, **used,
            )  # fmt: skip


async def read_stored(database: Database, key: SessionKey, loaded: LoadedTree, row: CheckpointRow) -> StoredCheckpoint:
    """Read a checkpoint; the nodes that it concerns know their messages by name then.

    Raises:
        DamagedSession: a body is missing or does not have its hash.
    """
    if row.imported_sha is not None:
        return await _from_elsewhere(database, key, loaded, row.imported_sha)
    record = converter.structure(row.record, CheckpointRecord)
    await _name_messages(loaded, record.node)
    slots = loaded.slots(record.node).between(record.start, record.position)
    known = {slot.id for slot in slots}
    lost = [await read_message(database, key, ident) for ident in record.reasoning if ident not in known]
    checkpoint = Checkpoint(
        id=row.id,
        session_id=key.session,
        timestamp=record.at,
        step=record.step,
        thread_id=record.node,
        state=ExecutionState(step=record.step, messages=loaded.messages(slots)),
        metadata={THREAD_LENGTH: loaded.slots(record.node).count_before(record.start)},
    )
    return StoredCheckpoint(
        checkpoint,
        [slot.id for slot in slots],
        Stretch(record.node, record.start, record.position),
        [item.message.text for item in lost if item is not None],
    )


async def _from_elsewhere(database: Database, key: SessionKey, loaded: LoadedTree, sha256: str) -> StoredCheckpoint:
    body = (await read_payloads(database, key, [sha256]))[sha256]
    checkpoint = read_checkpoint(cast(JSONObject, loads(body)))
    await _name_messages(loaded, checkpoint.thread_id)
    state = checkpoint.state
    told = sum(_is_reasoning(message) for message in state.messages)
    lost = state.reasoning[: max(0, len(state.reasoning) - told)]
    return StoredCheckpoint(checkpoint, [str(place) for place in range(len(state.messages))], None, lost)


async def _name_messages(loaded: LoadedTree, node: str) -> None:
    await loaded.name_messages([node, *loaded.find(node).children])


def _is_reasoning(message: Message) -> bool:
    return scaffold_of(message) == REASON


def _totals(state: ExecutionState) -> JSONObject:
    return {name: value for name, value in state.usage.to_json().items() if name != "cycles" and value}
