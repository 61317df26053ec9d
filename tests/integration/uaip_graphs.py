"""Workflows of several shapes, all of the three tasks that `tests.unit.uaip.specification` knows, for clients that try everything."""

from __future__ import annotations

from typing import Any

from perdure import App
from perdure.uaip import State, workflow_from_json
from perdure.upp.json_value import JSONValue

KEYS = ("a", "a.b", "cart.items", "user.email")
STAGES = ("browse", "select", "pay", "done")
TASKS = ("put", "drop", "fail")


async def put(state: State, key: str, value: JSONValue) -> JSONValue:
    """Write, and return what was written."""
    state.set(key, value)
    return value


def drop(state: State, key: str) -> bool:
    """Take away; on a thread, as a sync task."""
    return state.delete(key)


async def fail(state: State, key: str, value: JSONValue) -> None:
    """Write, and raise."""
    state.set(key, value)
    raise ValueError("Error")


def _document(
    name: str,
    stages: dict[str, tuple[list[str], list[str]]],
    ways: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """A document; stages are prerequisites and tasks, ways what is kept by source and target."""
    return {
        "name": name,
        "initial_stage": next(iter(stages)),
        "stages": {
            stage: {"prerequisites": needs, "tasks": {task: {"function": task} for task in tasks}}
            for stage, (needs, tasks) in stages.items()
        },
        "transitions": {
            stage: [{"to": target, "keep": keep} for target, keep in ways.get(stage, {}).items()] for stage in stages
        },
    }


DOCUMENTS = [
    _document(
        "graph_line",
        {
            "browse": ([], ["put"]),
            "select": ([], ["put", "drop", "fail"]),
            "pay": (["cart.items", "user.email"], ["fail", "put"]),
            "done": (["a"], []),
        },
        {"browse": {"select": "all"}, "select": {"pay": "all"}, "pay": {"done": ["a", "a.b"]}},
    ),
    _document(
        "graph_ring",
        {"browse": (["a"], ["put", "drop"]), "select": ([], ["fail"]), "pay": (["a.b"], ["drop", "put"])},
        {
            "browse": {"browse": [*KEYS], "select": [], "pay": "all"},
            "select": {"pay": "all"},
            "pay": {"browse": ["a", "a.b"], "pay": ["a.b"]},
        },
    ),
    _document("graph_room", {"done": ([], ["put", "drop", "fail"])}, {}),
]
"""A line with prerequisites, a ring in which a stage leads to itself and keys are dropped, and a single stage."""

app = App(workflows=[workflow_from_json(one, functions={"put": put, "drop": drop, "fail": fail}) for one in DOCUMENTS])
