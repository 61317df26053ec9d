"""L87: workflow code does no I/O, and nothing else that a replay would do otherwise, by the look of its source.

Looked at is every module of `perdure.workflows` and every module that it imports, as far as it is ours. It runs outside
Temporal's sandbox, so this and the recorded histories are what keeps it deterministic.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORBIDDEN_MODULES = frozenset(
    [
        "concurrent",
        "contextvars",
        "glob",
        "http",
        "io",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "requests",
        "secrets",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "httpx",
        "sqlalchemy",
        "asyncpg",
        "alembic",
    ]
)
FORBIDDEN_OURS = ("perdure.config", "perdure.store", "perdure.runtime", "perdure.worker", "perdure.inprocess")
FORBIDDEN_CALLS = frozenset(
    [
        "open",
        "input",
        "print",
        "hash",
        "exec",
        "eval",
        "asyncio.to_thread",
        "asyncio.as_completed",
        "asyncio.wait",
        "asyncio.run",
    ]
)
CLOCKS = frozenset({"now", "utcnow", "today"})
THREADS = frozenset({"run_in_executor", "to_thread"})
SETS = frozenset({"set", "frozenset"})
ORDERED_BY = frozenset({"list", "tuple", "enumerate", "zip", "map", "iter", "next", "join", "extend", "deque"})
MESSAGES = frozenset({"UserMessage", "AssistantMessage", "ToolResultMessage"})

ALLOWED = {
    ("perdure.uap.ids", "import uuid"): "to write derived ids; new_id, which draws one, is not called by workflow code",
    ("perdure.upp.messages", "import uuid"): "draws an id where none is given; workflow code always gives one",
    ("perdure.upp.messages", "call now"): "the time of a message that is given none; likewise",
    ("perdure.upp.timestamp", "call datetime.now"): "the time of a message that is given none; likewise",
    ("perdure.workflows.sandboxed", "import sys"): "the sandbox's own table of modules, where a strategy's is put",
    (
        "perdure.workflows.beside",
        "call asyncio.wait",
    ): "its order is not used: both tasks are asked whether they are done",
}
"""What is found and may stay, with the reason."""


def source_of(module: str) -> Path | None:
    """The file of one of our modules; None if it is no module."""
    path = ROOT / module.replace(".", "/")
    if path.is_dir():
        return path / "__init__.py"
    return path.with_suffix(".py") if path.with_suffix(".py").exists() else None


def imported(tree: ast.Module) -> Iterator[str]:
    """Our modules that a module names in its imports; a package's `__init__` only where nothing else is meant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("perdure"):
            inside = [name for alias in node.names if source_of(name := f"{node.module}.{alias.name}") is not None]
            yield from inside
            if len(inside) < len(node.names):
                yield node.module


def modules() -> dict[str, ast.Module]:
    """Every module of ours that workflow code runs, by name."""
    found: dict[str, ast.Module] = {}
    folder = ROOT / "perdure" / "workflows"
    wanted = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in folder.rglob("*.py")]
    wanted = [name.removesuffix(".__init__") for name in wanted]
    while wanted:
        name = wanted.pop()
        path = source_of(name)
        if name in found or path is None:
            continue
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
        wanted.extend(imported(found[name]))
    return found


MODULES = modules()


def offences(tree: ast.Module) -> set[str]:
    """What in a module would not be the same on replay."""
    return set(_imports(tree)) | set(_calls(tree)) | set(_sets(tree))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in FORBIDDEN_MODULES or name.startswith(FORBIDDEN_OURS):
                yield f"import {name}"


def _calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        clock = last in CLOCKS and name != "workflow.now"
        if clock or name in FORBIDDEN_CALLS or last in THREADS:
            yield f"call {name}"


def _sets(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        iterated: list[ast.expr] = []
        if isinstance(node, ast.For | ast.comprehension):
            iterated = [node.iter]
        elif isinstance(node, ast.Starred):
            iterated = [node.value]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ORDERED_BY:
            iterated = node.args
        for value in iterated:
            if isinstance(value, ast.Set | ast.SetComp) or (
                isinstance(value, ast.Call) and ast.unparse(value.func) in SETS
            ):
                yield f"order of {ast.unparse(value)}"


def test_workflow_code_is_where_it_is_looked_for() -> None:
    """The walk reaches the session, the strategies, the contracts and UPP's messages."""
    for name in ("workflows.session", "workflows.strategies.loop", "activities.contracts", "upp.messages", "uap.ids"):
        assert f"perdure.{name}" in MODULES


@pytest.mark.parametrize("name", sorted(MODULES))
def test_l87_a_module_of_workflow_code_does_no_io_and_is_deterministic(name: str) -> None:
    """No clock, chance, environment, thread, file or set's order; no settings, no store."""
    assert {found for found in offences(MODULES[name]) if (name, found) not in ALLOWED} == set()


def test_nothing_is_allowed_that_is_not_done() -> None:
    """An exception that nothing needs any more goes."""
    done = {(name, found) for name, tree in MODULES.items() for found in offences(tree)}
    assert set(ALLOWED) <= done


@pytest.mark.parametrize("name", sorted(MODULES))
def test_messages_are_made_with_id_and_time(name: str) -> None:
    """A message that is given neither draws both, otherwise on each replay."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in MESSAGES:
            given = {keyword.arg for keyword in node.keywords}
            assert {"id", "timestamp"} <= given, f"{name}, line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("name", sorted(set(MODULES) - {"perdure.uap.ids"}))
def test_no_id_is_drawn(name: str) -> None:
    """S32: Ids are derived in workflow code."""
    used = {node.id for node in ast.walk(MODULES[name]) if isinstance(node, ast.Name)}
    named = {a.name for node in ast.walk(MODULES[name]) if isinstance(node, ast.ImportFrom) for a in node.names}
    assert "new_id" not in used | named


OFFENCES = {
    "import random": "import random",
    "from time import monotonic": "import time",
    "def f():\n    from uuid import uuid4": "import uuid",
    "from os import environ": "import os",
    "from perdure.config import load_settings": "import perdure.config",
    "from perdure import config": "import perdure.config",
    "at = datetime.now(UTC)": "call datetime.now",
    "at = dt.datetime.utcnow()": "call dt.datetime.utcnow",
    "file = open('x')": "call open",
    "asyncio.to_thread(work)": "call asyncio.to_thread",
    "loop.run_in_executor(None, work)": "call loop.run_in_executor",
    "for name in {'a', 'b'}:\n    pass": "order of {'a', 'b'}",
    "names = [name for name in set(given)]": "order of set(given)",
    "names = list({name for name in given})": "order of {name for name in given}",
    "names = [*frozenset(given)]": "order of frozenset(given)",
    "text = ','.join(set(given))": "order of set(given)",
}
HARMLESS = [
    "at = workflow.now()",
    "names = sorted(set(given))",
    "found = name in {'a', 'b'}",
    "from datetime import UTC",
]


@pytest.mark.parametrize("source", OFFENCES)
def test_the_check_bites(source: str) -> None:
    """Each offence is found in code that commits it."""
    assert OFFENCES[source] in offences(ast.parse(source))


@pytest.mark.parametrize("source", HARMLESS)
def test_the_check_lets_pass_what_is_the_same_on_replay(source: str) -> None:
    """What Temporal makes deterministic, and a set whose order is not used, is no offence."""
    assert offences(ast.parse(source)) == set()
