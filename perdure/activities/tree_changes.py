"""Changes of a session's thread tree, and runs that go on from a checkpoint, each made in one transaction or refused.

What a change does is `uap`'s part (`thread_tree`, `session_place`), as in process. Here its turn comes, and it is written.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.activities.border import describe
from perdure.activities.contracts import BeginRunInput, Progress
from perdure.activities.convert import converter
from perdure.activities.history import progress_of
from perdure.activities.loaded_tree import LoadedTree
from perdure.activities.rewriting import rewrite
from perdure.activities.services import Services
from perdure.activities.stored_checkpoint import StoredCheckpoint, read_stored
from perdure.errors import InvalidInput
from perdure.store.answers import Writer
from perdure.store.beginning import Begun
from perdure.store.change_inputs import RESUME, Turn, name_input, note_made, refuse, take_turn
from perdure.store.checkpoints import CheckpointRow, current_checkpoint, read_checkpoints
from perdure.store.inputs import REWRITE
from perdure.store.resumed import ResumedRun, Stretch, begin_resumed, copy_calls, write_calls
from perdure.store.tables import sessions
from perdure.testing.crash import crash_point
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey
from perdure.uap.session_place import restored_branch, restored_place
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import format_timestamp


async def make_change(
    services: Services, writer: Writer, call: BeginRunInput, ordinal: int, spec: JSONObject
) -> Begun | None:
    """Make the change at a place of the inbox, if its turn has come; a run that goes on now, else None.

    Args:
        services: of this worker.
        writer: who writes.
        call: asks for the session's next run.
        ordinal: the change's place.
        spec: the agent, frozen, for a run.
    """
    async with services.database.transaction(writer.key) as connection:
        turn = await take_turn(connection, writer.key, ordinal)
        if turn is None:
            return None
        crash_point("make_change.storing")
        change = _Change(connection, services, writer, turn, datetime.fromisoformat(call.now), spec)
        try:
            begun = await change.make()
        except InvalidInput as error:
            await refuse(connection, writer.key, turn, describe(error))
            begun = None
    crash_point("make_change.stored")
    services.announcer.changed(writer.key)
    return begun


@dataclass(frozen=True, slots=True)
class _Change:
    """One change. What can refuse it comes before what it writes."""

    connection: AsyncConnection
    services: Services
    writer: Writer
    turn: Turn
    now: datetime
    spec: JSONObject

    @property
    def key(self) -> SessionKey:
        return self.writer.key

    async def make(self) -> Begun | None:
        loaded = await LoadedTree.load(self.connection, self.key)
        if self.turn.kind == RESUME:
            return await self._resume(loaded)
        if self.turn.kind == REWRITE:
            await rewrite(self.connection, self.key, self.turn, self.now, loaded)
            return None
        detail = cast("dict[str, str]", self.turn.detail)
        match self.turn.kind:
            case "fork":
                ident = detail.get("id") or derive_id(self.turn.run, "node")
                node = loaded.tree.branch(detail["node"], detail.get("name"), id=ident)
            case "checkout":
                node = detail["node"]
                loaded.tree.checkout(node)
            case "merge":
                node = detail["target"]
                await loaded.name_messages()
                loaded.tree.merge(detail["source"], node)
            case _:
                node = await self._restore(loaded, detail["checkpoint"])
        await self._write(loaded, {"node": node}, {})
        return None

    async def _restore(self, loaded: LoadedTree, checkpoint: str) -> str:
        rows = await read_checkpoints(self.connection, self.key)
        stored = await read_stored(self.services.database, self.key, loaded, _find(rows, checkpoint))
        node, _ = restored_place(loaded.tree, stored.checkpoint, branch_id=derive_id(self.turn.run, "node"))
        loaded.tree.checkout(node.id)
        return node.id

    async def _resume(self, loaded: LoadedTree) -> Begun:
        rows = await read_checkpoints(self.connection, self.key)
        named = cast("str | None", self.turn.detail.get("checkpoint"))
        row = await current_checkpoint(self.connection, self.key, rows) if named is None else _find(rows, named)
        if row is None:
            raise InvalidInput(f"session {self.key.session!r} has no checkpoint of a run; start one with an input")
        stored = await read_stored(self.services.database, self.key, loaded, row)
        if not stored.checkpoint.spoken or stored.checkpoint.state.messages[0].type != "user":
            raise InvalidInput(f"checkpoint {row.id!r} holds no run that begins with a user's message")
        branch = restored_branch(loaded.tree, stored.checkpoint, branch_id=derive_id(self.turn.run, "node"))
        branch.thread.clear()  # the run's rows come with its strategy's own, below
        loaded.tree.checkout(branch.id)
        data: JSONObject = {"node": branch.id, "checkpoint": row.id}
        start = len(stored.lost_reasoning)
        messages = stored.checkpoint.state.messages
        ids = [derive_id(branch.id, "message", place) for place in range(len(messages))]
        made = Stretch(branch.id, start, start + len(messages))
        progress = self._progress(stored, row, dict(zip(stored.rows, ids, strict=True)), made)
        packed = converter.unstructure(progress)
        await self._write(loaded, data, {"checkpoint": row.id, "node": branch.id, "progress": packed})
        await self._write_run(loaded, stored, made, ids)
        run = ResumedRun(
            id=self.turn.run, ordinal=self.turn.ordinal, made=made, checkpoint=row.id, progress=packed,
            execution=self.writer.execution, spec=self.spec, now=self.now,
        )  # fmt: skip
        return await self._begin(run)

    async def _write_run(self, loaded: LoadedTree, stored: StoredCheckpoint, made: Stretch, ids: list[str]) -> None:
        """Write the run's messages and tool calls on its branch."""
        run = self.turn.run
        await stored.write_lost_reasoning(self.connection, self.key, made.node, run)
        rows = list(zip(ids, stored.checkpoint.state.messages, strict=True))
        if stored.stretch is not None:
            await loaded.write_messages(made.node, rows, first=made.start, run=run)
            await copy_calls(self.connection, self.key, run, stored.stretch, made)
        else:
            await stored.write_messages(self.connection, self.key, made, run, rows)
            state = stored.checkpoint.state
            await write_calls(self.connection, self.key, run, state.step, rows, state.tool_executions)

    def _progress(
        self, stored: StoredCheckpoint, row: CheckpointRow, copies: dict[str, str], made: Stretch
    ) -> Progress:
        """Where the run stands, on its branch."""
        if stored.stretch is None:
            return stored.progress(copies, made)
        known = progress_of(cast("dict[str, Any]", row.record))
        lost = [derive_id(made.node, "reasoning", place) for place in range(len(stored.lost_reasoning))]
        reasoning = [*lost, *(copies[ident] for ident in known.reasoning if ident in copies)]
        return dataclasses.replace(known, position=made.end, reasoning=reasoning)

    async def _write(self, loaded: LoadedTree, data: JSONObject, detail: JSONObject) -> None:
        """Write what the tree became, and the event that says so."""
        changed, current = loaded.changed_nodes(), loaded.tree.current.id
        await loaded.write(changed, self.turn.run)
        await self.connection.execute(
            update(sessions)
            .where(sessions.c.tenant_id == self.key.tenant, sessions.c.id == self.key.session)
            .values(current_node=current, updated_at=self.now)
        )
        told: JSONObject = {
            **data, "current": current, "nodes": [node.to_json() for node in changed], "at": format_timestamp(self.now),
        }  # fmt: skip
        await note_made(self.connection, self.key, self.turn, told, detail=detail)

    async def _begin(self, run: ResumedRun) -> Begun:
        message, sha256 = await begin_resumed(self.connection, self.key, run)
        options = await name_input(self.connection, self.key, self.turn, message, sha256)
        row: JSONObject = {
            "run": run.id, "node": run.made.node, "start": run.made.start, "epoch": self.turn.epoch, "spec": self.spec,
            "message": message, "message_sha": sha256, "execution": run.execution, "started": run.now.isoformat(),
        }  # fmt: skip
        return Begun("new", row=row, options=options, progress=dict(run.progress))


def _find(rows: list[CheckpointRow], checkpoint: str) -> CheckpointRow:
    found = next((row for row in rows if row.id == checkpoint), None)
    if found is None:
        raise InvalidInput(f"Checkpoint not found: {checkpoint}")
    return found
