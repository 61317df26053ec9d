"""The tables of what `python -m benchmarks profile` saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.limits import PERDURE, name_of
from benchmarks.markdown import number, table
from benchmarks.results import Result

_TIMES = {
    "whole": "ms per step, alone",
    "activities": "activities",
    "workflow_tasks": "workflow tasks",
    "dispatch": "until a worker has them",
    "rest": "handing in, beginning, end, result",
}
_FUNCTIONS_SHOWN = 8


def profile(result: Result) -> str:
    """All three looks of a result."""
    return "\n\n".join((_times(result), _interpreter(result), _database(result)))


def _times(result: Result) -> str:
    rows = _values(result, "time")
    shown = [[name_of(one), *(number(found.get(part)) for part in _TIMES)] for (_, one), found in rows.items()]
    return f"What a step of W1 waits for when its run is alone, by its history:\n\n{table(('Runtime', *_TIMES.values()), shown)}"


def _interpreter(result: Result) -> str:
    rows = _values(result, "interpreter")
    parts = list(dict.fromkeys(part for found in rows.values() for part in found))
    shown = [
        [f"{work}, {name_of(one)}", *(f"{found.get(part, 0):.0%}" for part in parts)]
        for (work, one), found in rows.items()
    ]
    return f"Whose code holds the worker's interpreter with 20 runs in flight:\n\n{table(('Work', *parts), shown)}"


def _database(result: Result) -> str:
    commits = ", ".join(
        f"{number(found['commits'])} of {name_of(one)} in {work}"
        for (work, one), found in _values(result, "database").items()
    )
    calls = _values(result, "function", lambda row: row["calls"])
    texts = [f"Transactions of PostgreSQL per step: {commits}."]
    for (work, contestant), found in _values(result, "function").items():
        if contestant == PERDURE:
            most = sorted(found, key=lambda name: -found[name])[:_FUNCTIONS_SHOWN]
            rows = [[f"`{name}`", number(calls[work, contestant][name]), number(found[name])] for name in most]
            texts.append(
                f"Functions of the store in {work}:\n\n{table(('Function', 'calls per step', 'ms per step'), rows)}"
            )
    return "\n\n".join(texts)


def _values(
    result: Result, look: str, of: Callable[[Mapping[str, Any]], float] = lambda row: row["value"]
) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of a look by work and contestant, then by part."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in result.rows:
        if row["look"] == look:
            found.setdefault((row["work"], row["contestant"]), {})[row["part"]] = of(row)
    return found
