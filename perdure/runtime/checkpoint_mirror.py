"""The checkpoints of a stored session in memory, made of their records and of messages that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from perdure.activities.convert import converter
from perdure.runtime.node_mirror import NodeMirror
from perdure.runtime.session_document import session_document
from perdure.runtime.sub_agent_states import sub_agent_documents, sub_agent_states
from perdure.store.checkpoints import CheckpointRow
from perdure.store.database import Database
from perdure.store.payloads import read_payloads
from perdure.store.session_news import RunPlace, SessionNews
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.ids import derive_id
from perdure.uap.plan_steps import PlanStep
from perdure.uap.session_checkpoints import DONE, RUN_ID, THREAD_LENGTH, Checkpoint
from perdure.uap.session_document import executions_of, read_checkpoint
from perdure.uap.session_key import SessionKey
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, loads
from perdure.upp.usage import TokenUsage


class CheckpointMirror:
    """The checkpoints of one session.

    Attributes:
        items: in the order of the session's document.
    """

    def __init__(self, database: Database, key: SessionKey, nodes: Mapping[str, NodeMirror]) -> None:
        """Make checkpoints of the messages in `nodes`, which is filled meanwhile."""
        self._database = database
        self._key = key
        self._nodes = nodes
        self._places: dict[str, int] = {}
        self._records: dict[str, CheckpointRecord] = {}
        self._last_seq = 0
        self.items: list[Checkpoint] = []

    async def take(self, news: SessionNews) -> None:
        """Take those that are new; at the end of a run that was open then its last one says now that it is done."""
        rows = [row for row in news.checkpoints if row.id not in self._places]
        for row in rows:
            if row.imported_sha is None:
                self._records[row.id] = converter.structure(row.record, CheckpointRecord)
        records = [self._records[row.id] for row in rows if row.id in self._records]
        children = await sub_agent_documents(self._database, self._key, records, session_document)
        for row in rows:
            self._places[row.id] = len(self.items)
            self.items.append(await self._made(row, children))
            self._last_seq = max(self._last_seq, row.first_seq or 0)
        self._finish(news)

    def current(self, news: SessionNews) -> Checkpoint | None:
        """The one that the session stands at: the latest, or the one restored after it; None before the first."""
        came = cast("dict[str, str]", news.row.imported or {})
        named, since = (
            (news.moved.get("checkpoint"), news.moved.get("seq")) if news.moved else (came.get("checkpoint"), 0)
        )
        if self._last_seq <= cast(int, since or 0) and named in self._places:
            return self.items[self._places[str(named)]]
        return self.items[-1] if self.items else None

    def _finish(self, news: SessionNews) -> None:
        ended = {run.id: run for run in news.runs if run.status == "completed"}
        for row in news.checkpoints:
            record, place = self._records.get(row.id), self._places[row.id]
            if record is not None and not self.items[place].state.done and self._is_end(record, ended.get(record.run)):
                self.items[place] = self.items[place].finished()

    def _is_end(self, record: CheckpointRecord, run: RunPlace | None) -> bool:
        if run is None or run.step != record.step:
            return False
        return self._nodes[record.node].is_end(record.run, record.start, record.position)

    async def _made(self, row: CheckpointRow, children: Mapping[str, JSONObject]) -> Checkpoint:
        if row.imported_sha is not None:
            body = (await read_payloads(self._database, self._key, [row.imported_sha]))[row.imported_sha]
            return read_checkpoint(cast(JSONObject, loads(body)))
        record = self._records[row.id]
        mirror = self._nodes[record.node]
        usage = TokenUsage.from_json(record.usage)
        metadata: JSONObject = {
            "stepId": derive_id(record.run, "step", record.step),
            RUN_ID: record.run,
            THREAD_LENGTH: mirror.count_before(record.start),
            "usage": {name: count for name, count in usage.to_json().items() if name != "cycles"},
            "cycles": record.cycles,
        }
        return Checkpoint(
            id=record.id,
            session_id=self._key.session,
            timestamp=record.at,
            step=record.step,
            thread_id=record.node,
            state=self._state(record, mirror, usage),
            sub_agent_states=sub_agent_states(record, children),
            metadata={**metadata, DONE: True} if record.done else metadata,
        )

    def _state(self, record: CheckpointRecord, mirror: NodeMirror, usage: TokenUsage) -> ExecutionState:
        messages = mirror.between(record.start, record.position)
        return ExecutionState(
            step=record.step,
            messages=messages,
            metadata=record.metadata,
            tool_executions=executions_of(messages),
            usage=usage,
            cycles=record.cycles,
            done=record.done,
            reasoning=self._texts(record.reasoning),
            plan=None if record.plan is None else [PlanStep.from_json(step) for step in record.plan],
        )

    def _texts(self, ids: Sequence[str]) -> list[str]:
        return [next(node.texts[name] for node in self._nodes.values() if name in node.texts) for name in ids]
