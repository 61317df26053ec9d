"""Server processes are known by what the kernel says of them, never by a pid alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.embedded.locks import try_lock
from perdure.embedded.process import (
    Kind,
    Launch,
    ServerProcess,
    clean_environment,
    end,
    find,
    recognise,
    spawn,
    works_on,
)

KIND = Kind(Path(sys.executable).name, data_flag="-D", port_flag="-p", stop_signal=signal.SIGTERM)
SLEEP = "import signal; print(flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@contextmanager
def server(data: Path, code: str = SLEEP) -> Generator[ServerProcess]:
    """A process that looks like a server on `data`, port 4711, and holds the lock beside it."""
    data.mkdir(exist_ok=True)
    said, lock = data.with_suffix(".log"), try_lock(data.with_suffix(".lock"))
    assert lock is not None
    with said.open("wb") as log:
        arguments = [sys.executable, "-c", code, "-D", str(data), "-p", "4711"]
        running = spawn(Launch(KIND, arguments, data, None, 4711), log=log.fileno(), lock=lock)
    os.close(lock)
    try:
        until(lambda: said.stat().st_size)
        yield running
    finally:
        end([running], grace=timedelta(0))


def test_a_running_server_is_found_with_its_port(tmp_path: Path) -> None:
    with server(tmp_path / "data") as running:
        assert find(KIND, tmp_path / "data") == running
        assert running.port == 4711
        assert running.exit_status() is None


def test_a_server_of_another_folder_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with server(tmp_path / "data") as running:
        assert find(KIND, tmp_path / "other") is None
        assert recognise(running.pid, KIND, tmp_path / "other") is None
        assert not works_on(running.pid, KIND, tmp_path / "other")


def test_a_server_whose_folder_was_renamed_is_still_ours(tmp_path: Path) -> None:
    with server(tmp_path / "data") as running:
        (tmp_path / "data").rename(tmp_path / "moved")
        assert find(KIND, tmp_path / "moved") == running
        assert find(KIND, tmp_path / "data") is None


def test_a_process_of_another_kind_is_not_ours(tmp_path: Path) -> None:
    with server(tmp_path / "data") as running:
        assert recognise(running.pid, Kind("postgres", "-D", "-p", signal.SIGINT), tmp_path / "data") is None
        assert recognise(os.getpid(), KIND, tmp_path / "data") is None


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    """A killed process that nobody has reaped yet is no live server."""
    arguments = [sys.executable, "-c", SLEEP, "-D", str(tmp_path), "-p", "4711"]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        running = recognise(child.pid, KIND, tmp_path)
        assert running is not None
        child.kill()
        until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        assert not running.is_alive()
        assert recognise(child.pid, KIND, tmp_path) is None


@pytest.mark.parametrize(("code", "status"), [(SLEEP, -signal.SIGTERM), (STUBBORN, -signal.SIGKILL)])
def test_a_server_is_asked_to_end_and_then_killed(tmp_path: Path, code: str, status: int) -> None:
    grace = timedelta(seconds=90 if code == SLEEP else 0.3)
    with server(tmp_path / "data", code) as running:
        end([running], grace=grace)
        assert running.exit_status() == status


def test_a_server_holds_its_data_lock_until_it_is_dead(tmp_path: Path) -> None:
    lock = tmp_path / "data.lock"
    with server(tmp_path / "data") as running:
        assert try_lock(lock) is None
        os.kill(running.pid, signal.SIGKILL)
        until(lambda: not running.is_alive())
        descriptor = try_lock(lock)
        assert descriptor is not None
        os.close(descriptor)


def test_a_server_is_out_of_reach_of_the_terminal(tmp_path: Path) -> None:
    """It has a session of its own, so Ctrl-C does not get to it."""
    with server(tmp_path / "data") as running:
        assert os.getsid(running.pid) == running.pid != os.getsid(0)


def test_the_environment_does_not_change_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGDATA", "PGPORT", "TEMPORAL_ADDRESS", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "x")
    assert not {"PGDATA", "PGPORT", "TEMPORAL_ADDRESS", "XDG_CONFIG_HOME"} & clean_environment().keys()
    assert clean_environment()["PATH"] == os.environ["PATH"]
