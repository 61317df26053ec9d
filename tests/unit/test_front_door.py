"""`import perdure`: a few names, and nothing loaded for them before they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.uap import host

ROOT = Path(__file__).parents[2]
HEAVY = ("temporalio", "sqlalchemy", "asyncpg", "alembic", "pydantic", "httpx", "typer", "rich")


def loaded(code: str) -> set[str]:
    """Which packages a fresh process has loaded after some code."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return set(ended.stdout.split())


def test_importing_loads_nothing() -> None:
    """No library comes with the name of the package."""
    assert loaded("import perdure").isdisjoint(HEAVY)


def test_an_agent_needs_no_server_library() -> None:
    """Defining agents and running them in process loads neither Temporal nor SQL."""
    assert loaded("from perdure import App, agent\nfrom perdure.execution import loop").isdisjoint(
        {"temporalio", "sqlalchemy", "asyncpg", "alembic"}
    )


def test_connect_is_what_brings_the_servers() -> None:
    """And only that."""
    assert {"temporalio", "sqlalchemy"} <= loaded("from perdure import connect")


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_name_is_there_and_listed(name: str) -> None:
    """Also before its first use."""
    assert name in dir(perdure)
    assert callable(getattr(perdure, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module, so that `hasattr` and `from perdure import x` work."""
    with pytest.raises(AttributeError, match="module 'perdure' has no attribute 'sesion'"):
        getattr(perdure, "sesion")  # noqa: B009 - what is tested
    assert not hasattr(perdure, "__nothing__")


def test_the_front_door_installs_the_in_process_host() -> None:
    """`agent.run()` works at once."""
    assert callable(perdure.agent)
    assert type(host.current()).__name__ == "InProcessHost"
