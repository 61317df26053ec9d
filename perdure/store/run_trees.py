"""Runs with the runs of sub-agents that they called, to any depth, and what all of them did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from perdure.store.database import Database
from perdure.store.folding import EndedRun
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

_TREE = """
with recursive tree as (
    select r.session_id, r.id from perdure.runs r where r.tenant_id = $1 and r.id = any($2::text[])
    union
    select r.session_id, r.id from tree t
      join perdure.sessions s on s.tenant_id = $1 and s.parent_session = t.session_id and s.parent_run = t.id
      join perdure.runs r on r.tenant_id = $1 and r.session_id = s.id
)
select r.session_id, r.id, r.step, r.cycles, r.usage, r.temporal_run_id, r.first_seq, r.last_seq,
       (select count(*) from perdure.tool_calls c
         where c.tenant_id = r.tenant_id and c.session_id = r.session_id and c.run_id = r.id) as tool_calls
  from tree join perdure.runs r on r.tenant_id = $1 and r.session_id = tree.session_id and r.id = tree.id
"""


@dataclass(frozen=True, slots=True)
class TreeRun:
    """A run of a tree.

    Attributes:
        key: its session.
        id: its id.
        steps: that it took.
        model_calls: that were answered.
        tool_calls: calls of sub-agents among them.
        usage: TokenUsage JSON of itself, without its sub-agents; None if it has none yet.
        execution: Temporal's run id of the execution that wrote last.
        first_seq: number of its first event.
        last_seq: of its last one, or None while it is open.
    """

    key: SessionKey
    id: str
    steps: int
    model_calls: int
    tool_calls: int
    usage: JSONObject | None
    execution: str
    first_seq: int
    last_seq: int | None

    @property
    def ended(self) -> EndedRun | None:
        """What folding takes; None while it is open."""
        return None if self.last_seq is None else EndedRun(self.key, self.id, self.first_seq, self.last_seq)


async def read_trees(database: Database, tenant: str, run_ids: Collection[str]) -> list[TreeRun]:
    """These runs, as far as they have begun, and all that were called by them, in no order."""
    async with database.driver() as connection:
        rows = await connection.fetch(_TREE, tenant, list(run_ids))
    return [
        TreeRun(
            key=SessionKey(tenant, row["session_id"]),
            id=row["id"],
            steps=row["step"],
            model_calls=row["cycles"],
            tool_calls=row["tool_calls"],
            usage=cast("JSONObject | None", row["usage"]),
            execution=row["temporal_run_id"],
            first_seq=row["first_seq"],
            last_seq=row["last_seq"],
        )
        for row in rows
    ]
