"""What workflow code will run of UAIP does nothing that a replay would do otherwise, and is light to import."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.replay.test_static import ROOT, imported, offences, source_of

ENTRIES = ("machine", "offers", "session", "action", "decision", "definition", "task_outcome")


def closure() -> dict[str, ast.Module]:
    """Every module of ours that the entries import, by name."""
    found: dict[str, ast.Module] = {}
    wanted = [f"perdure.uaip.{name}" for name in ENTRIES]
    while wanted:
        name = wanted.pop()
        path = source_of(name)
        if name not in found and path is not None:
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
            wanted.extend(imported(found[name]))
    return found


MODULES = closure()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_of_the_machine_is_deterministic(name: str) -> None:
    """No clock, chance, environment, thread, file or set's order."""
    assert offences(MODULES[name]) == set()


def test_the_machine_loads_no_server_and_no_agent() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import perdure.uaip.machine, sys; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    loaded = ended.stdout.split()
    assert "perdure.uaip.machine" in loaded
    assert {"temporalio", "sqlalchemy", "httpx", "jsonschema", "perdure.uap.agent"}.isdisjoint(loaded)
