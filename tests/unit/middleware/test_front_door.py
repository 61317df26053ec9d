"""`perdure.middleware`: its names, and nothing else of use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import perdure.middleware
from perdure.uap.middleware import Middleware

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", perdure.middleware.__all__)
def test_every_name_is_there_and_listed(name: str) -> None:
    assert name in dir(perdure.middleware)
    assert callable(getattr(perdure.middleware, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'perdure.middleware' has no attribute 'memry'"):
        getattr(perdure.middleware, "memry")  # noqa: B009 - what is tested


def test_no_name_of_upp_is_reachable() -> None:
    """Neither before nor after the names were used."""
    for name in perdure.middleware.__all__:
        getattr(perdure.middleware, name)
    homes = {getattr(getattr(perdure.middleware, name), "__module__", "") for name in dir(perdure.middleware)}
    assert [home for home in homes if str(home).startswith("perdure.upp")] == []
    assert not hasattr(perdure.middleware, "Turn")


def test_importing_it_loads_no_implementation() -> None:
    code = "import perdure.middleware, sys\nassert not [m for m in sys.modules if m.startswith('perdure.u')]"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=180, check=True)


def test_logging_is_ours_and_pythons_stays_pythons() -> None:
    assert perdure.middleware.logging.__module__ == "perdure.uap.middlewares.logging"
    assert hasattr(sys.modules["logging"], "getLogger")


def test_what_comes_out_is_middleware() -> None:
    made = [
        perdure.middleware.logging(),
        perdure.middleware.guardrails(input=[str.strip]),
        perdure.middleware.memory(max_messages=2),
        perdure.middleware.budget(max_steps=1),
    ]
    assert [item.name for item in made] == ["logging", "guardrails", "memory", "budget"]
    assert all(isinstance(item, Middleware) for item in made)
