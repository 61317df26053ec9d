"""`perdure.types`: the names of the specification's section 14.2, and that no door leads to UPP's."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import perdure
import perdure.types
import perdure.upp

ROOT = Path(__file__).parents[2]
DOORS = ("perdure", "perdure.execution", "perdure.middleware", "perdure.types")
SPECIFIED = """
    AgentOptions Agent ToToolOptions ExecutionStrategy ExecutionContext ExecutionState LoopOptions ReactOptions PlanOptions
    PlanStep StepResult SessionOptions Session Checkpoint PersistenceAdapter ThreadTree ThreadNode QueryResult Middleware
    MiddlewareContext LoggingOptions AgentStrategy AgentStreamResult AgentStreamEvent UAPEvent UAPEventType
"""


def test_there_is_every_name_of_section_14_2_and_no_other() -> None:
    assert sorted(SPECIFIED.split()) == perdure.types.__all__


@pytest.mark.parametrize("name", perdure.types.__all__)
def test_a_name_is_a_class_of_that_name_and_listed(name: str) -> None:
    assert name in dir(perdure.types)
    found = getattr(perdure.types, name)
    assert isinstance(found, type)
    assert found.__name__ == name


@pytest.mark.parametrize("name", sorted({*perdure.__all__} & {*perdure.types.__all__}))
def test_what_two_doors_have_is_the_same(name: str) -> None:
    assert getattr(perdure, name) is getattr(perdure.types, name)


@pytest.mark.parametrize("door", DOORS)
def test_no_name_of_upp_can_be_reached(door: str) -> None:
    """Also once every name of the door has been used. Source: UAP-1.0 sections 1.3 and 15.2.2."""
    module = import_module(door)
    for name in module.__all__:
        getattr(module, name)
    assert [name for name in perdure.upp.__all__ if hasattr(module, name)] == []
    assert sorted({*dir(module)} & {*perdure.upp.__all__}) == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=re.escape("module 'perdure.types' has no attribute 'Turn'")):
        getattr(perdure.types, "Turn")  # noqa: B009 - what is tested


def test_a_session_from_here_can_run_at_once() -> None:
    """The in-process host is installed with the name, in a fresh process."""
    code = "from perdure.types import Session\nfrom perdure.uap import host\nprint(type(host.current()).__name__)"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180, check=True
    )
    assert ended.stdout.strip() == "InProcessHost"
