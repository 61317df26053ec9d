"""CI's script, run over a stand-in for the Makefile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
MAKEFILE = """
check build:
\t@echo $@ $(CI)
test:
\t@setsid sleep 300 & echo $$! > left
\t@echo "1 passed"
\t@exit {status}
"""


def is_running(pid: int) -> bool:
    """Whether the process still runs; one that ended but that nobody has waited for does not."""
    try:
        state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def run_script(folder: Path, status: int) -> subprocess.CompletedProcess[str]:
    (folder / ".ci").mkdir()
    shutil.copy(RUN, folder / ".ci" / "run")
    (folder / "Makefile").write_text(MAKEFILE.format(status=status))
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "MAKEFLAGS", "MAKELEVEL"}}
    script = str(folder / ".ci" / "run")
    return subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("status", [0, 1], ids=["green", "red"])
def test_ci_says_how_it_went_and_leaves_nothing_running(tmp_path: Path, status: int) -> None:
    done = run_script(tmp_path, status)
    assert (done.returncode == 0) is (status == 0)
    assert done.stdout.splitlines()[-1] == "1 passed"
    assert "check true" in done.stdout
    assert not is_running(int((tmp_path / "left").read_text()))
    assert "sleep 300" in done.stderr


def test_the_script_can_be_executed() -> None:
    assert os.access(RUN, os.X_OK)
