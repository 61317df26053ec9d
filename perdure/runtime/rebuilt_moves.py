"""Positions that a repair of a thread has moved: histories tell of the old ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from perdure.store.rebuilt import LogEntry, RowValues
from perdure.store.thread_repairs import Move
from perdure.upp.json_value import JSONObject


def move_runs(rows: Sequence[RowValues], moves: Sequence[Move], kept: Sequence[RowValues]) -> list[RowValues]:
    """Rows of runs with their positions of today.

    Args:
        rows: of runs.
        moves: in order.
        kept: those that were not made of histories, and have today's already.
    """
    return [
        row
        if any(row is one for one in kept)
        else {**row, "start_position": _moved(moves, row["node_id"], row["first_seq"], row["start_position"])}
        for row in rows
    ]


def move_checkpoints(rows: Sequence[RowValues], moves: Sequence[Move], began: Mapping[str, int]) -> list[RowValues]:
    """Rows of checkpoints with their positions of today.

    Args:
        rows: made of histories.
        moves: in order.
        began: number of each run's first event.
    """
    made: list[RowValues] = []
    for row in rows:
        position = _moved(moves, row["node_id"], began[row["run_id"]], row["position"])
        record = {**cast("dict[str, Any]", row["record"]), "position": position}
        made.append({**row, "position": position, "record": record} if position != row["position"] else row)
    return made


def move_nodes(rows: Sequence[RowValues], moves: Sequence[Move], changes: Sequence[LogEntry]) -> list[RowValues]:
    """Rows of thread nodes with their positions of today.

    Args:
        rows: of nodes, as the changes of the tree tell of them.
        moves: in order.
        changes: in order.
    """
    told = {
        str(node["id"]): change.seq
        for change in changes
        for node in cast("list[JSONObject]", change.data.get("nodes") or [])
    }
    return [
        {**row, "fork_index": _moved(moves, row["parent_id"], told[row["id"]], row["fork_index"])}
        if row["fork_index"] is not None and row["id"] in told
        else row
        for row in rows
    ]


def _moved(moves: Sequence[Move], node: str, since: int, position: int) -> int:
    """Where what stood at a position of a node when an event was written stands now."""
    for move in moves:
        if move.node == node and move.seq > since and position >= move.at:
            position += 1
    return position
