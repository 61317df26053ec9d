"""The guard against tests that silently do not run, tried on small suites in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skip_guard import read_allowed

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.skip_guard import SkipGuard

def pytest_configure(config):
    config.pluginmanager.register(SkipGuard(allowed=frozenset({allowed!r}), strict={strict!r}))
"""
SKIPS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_skips(n):
    pytest.skip("not today")
"""
EXPECTED_TO_FAIL = """
import pytest

@pytest.mark.xfail
def test_fails():
    assert False
"""
SKIPPED_WHOLE = """
import pytest

pytest.importorskip("no_such_module")
"""
PASSES = """
def test_passes():
    pass
"""


def run_suite(folder: Path, source: str, *, allowed: tuple[str, ...] = (), strict: bool = True) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST.format(allowed=allowed, strict=strict))
    (folder / "test_it.py").write_text(source + PASSES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (SKIPS, "test_it.py::test_skips[1]: skipped"),
        (EXPECTED_TO_FAIL, "test_it.py::test_fails: expected to fail"),
        (SKIPPED_WHOLE, "test_it.py: skipped whole"),
    ],
    ids=["skip", "xfail", "module"],
)
def test_a_test_that_does_not_run_fails_a_strict_run_and_is_named(tmp_path: Path, source: str, line: str) -> None:
    code, output = run_suite(tmp_path, source)
    assert code == pytest.ExitCode.TESTS_FAILED if source != SKIPPED_WHOLE else code != 0
    assert line in output


def test_a_run_that_is_not_strict_names_it_and_passes(tmp_path: Path) -> None:
    code, output = run_suite(tmp_path, SKIPS, strict=False)
    assert code == 0
    assert "test_it.py::test_skips[2]: skipped" in output


def test_a_listed_test_may_be_skipped_with_all_its_parameters(tmp_path: Path) -> None:
    code, output = run_suite(tmp_path, SKIPS, allowed=("test_it.py::test_skips",))
    assert code == 0
    assert "not run" not in output


def test_the_list_is_read_without_comments_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "allowed.txt"
    path.write_text("# heading\n\ntests/a.py::test_b[x#1]  # needs the moon\n")
    assert read_allowed(path) == {"tests/a.py::test_b[x#1]"}
