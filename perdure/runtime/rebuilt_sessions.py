"""Rows of root and other nodes, and what a session's row says of its runs, made from what the event log says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from perdure.activities.convert import converter
from perdure.runtime.run_log import RunLog
from perdure.store.importing import IMPORTED
from perdure.store.inputs import CHANGED
from perdure.store.rebuilt import Identity, Kept, LogEntry, RowValues
from perdure.store.tree import node_values
from perdure.uap.ids import root_node_id
from perdure.uap.recorded_usage import join_usage
from perdure.uap.session_key import SessionKey
from perdure.uap.spec import AgentSpec
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import parse_timestamp


def node_rows(key: SessionKey, kept: Kept, existing: Mapping[Identity, RowValues]) -> list[RowValues]:
    """The rows of thread nodes: the root's, and those that the changes of the tree tell of.

    Args:
        key: the session.
        kept: the rows that are truth.
        existing: the session's rows, by primary key; nodes that it came with are told of nowhere else.
    """
    told = [node for change in kept.changes for node in cast("list[JSONObject]", change.data.get("nodes") or [])]
    made = {str(row["id"]): row for row in (node_values(key, node) for node in told)}
    rows = made if any(change.type == IMPORTED for change in kept.changes) else {**_root(key, kept), **made}
    came = {row["id"] for row in existing.values() if row["imported"] is not None}
    return [row for ident, row in rows.items() if ident not in came]


def _root(key: SessionKey, kept: Kept) -> dict[str, RowValues]:
    """The row of the root node, which is as old as its session."""
    root = root_node_id(key.session)
    row: RowValues = {
        "tenant_id": key.tenant,
        "session_id": key.session,
        "id": root,
        "parent_id": None,
        "name": "main",
        "fork_index": None,
        "thread_id": root,
        "metadata": {},
        "created_at": kept.session.created_at,
    }
    return {root: row}


def session_totals(key: SessionKey, kept: Kept, logs: Mapping[str, RunLog], rows: list[RowValues]) -> RowValues:
    """What the session's row says of its runs; nothing where a run that began has no row any more.

    Args:
        key: the session.
        kept: the rows that are truth.
        logs: of the runs that began.
        rows: of the runs.
    """
    if logs.keys() - {row["id"] for row in rows}:
        return {}
    ended = sorted((row for row in rows if row["ended_at"] is not None), key=lambda row: row["last_seq"])
    moves = [(row["first_seq"], row["node_id"]) for row in rows]
    moves += [(change.seq, change.data["current"]) for change in kept.changes]
    touches = [(row["last_seq"], row["ended_at"]) for row in ended]
    touches += [(change.seq, _told_time(change)) for change in kept.changes if change.type == CHANGED]
    used = [usage for row in ended for usage in (row.get("usage_by_agent") or {"": row["usage"]}).values()]
    usage: JSONObject = {name: sum(item.get(name, 0) for item in used) for name in ("inputTokens", "outputTokens")}
    by_agent: dict[str, dict[str, Any]] = {}
    for row in ended:
        by_agent = join_usage(by_agent, row.get("usage_by_agent") or {})
    return {
        "status": "paused" if kept.paused else "running" if kept.active_run else "idle",
        "current_node": kept.session.current_node or max(moves, default=(0, root_node_id(key.session)))[1],
        "runs": len(rows),
        "steps": sum(row["step"] - _steps_before(kept, row) for row in ended),
        "usage": usage,
        "usage_by_agent": by_agent or None,
        "updated_at": max(touches, default=(0, _first_touch(kept)))[1],
    }


def _steps_before(kept: Kept, row: RowValues) -> int:
    """Steps of the checkpoint that a run went on from, which were counted with the run that took it."""
    progress = cast("dict[str, int]", kept.resumed.get(row["id"], {}).get("progress") or {})
    if not progress or converter.structure(row["spec"], AgentSpec).strategy.starts_over:
        return 0
    return progress.get("step", 0)


def _told_time(change: LogEntry) -> datetime:
    return datetime.fromisoformat(str(change.data["at"]))


def _first_touch(kept: Kept) -> datetime:
    """When a session was last changed before it had a run here."""
    imported = cast("dict[str, str]", kept.session.imported or {})
    return parse_timestamp(imported["updatedAt"]) if "updatedAt" in imported else kept.session.created_at
