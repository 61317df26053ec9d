"""The worker that `perdure dev` keeps: started again, moved, stopped and killed."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.cli.dev import introduce
from perdure.config import Settings, load_settings
from perdure.embedded.dev import Development, Kept, watch
from perdure.embedded.servers import Addresses, EmbeddedServers
from perdure.errors import EmbeddedError

HERE = Addresses("127.0.0.1:1", "postgresql://u:p@127.0.0.1:2/x")
THERE = Addresses("127.0.0.1:3", "postgresql://u:p@127.0.0.1:2/x")


def worker_of(tmp_path: Path, program: str, patience: float = 20) -> tuple[Kept, list[str]]:
    """A worker that is a small program, and what is said of it."""
    said: list[str] = []
    command = [sys.executable, "-c", program]
    return Development(tmp_path, command, timedelta(seconds=patience)).processes(said.append)[0], said


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


async def end(keeping: asyncio.Task[None], worker: Kept) -> None:
    keeping.cancel()
    await asyncio.wait([keeping])
    await worker.stop()


async def test_a_worker_that_ends_is_started_again(tmp_path: Path) -> None:
    """Its end is said with the reason, and one that ends soon again is waited with for longer."""
    worker, said = worker_of(tmp_path, "import os; os.kill(os.getpid(), 9)")
    keeping = asyncio.create_task(worker.keep(lambda: HERE))
    await until(lambda: len(said) == 2)
    await end(keeping, worker)
    assert [line.partition(" in ")[2] for line in said] == ["0.5 s", "1 s"]
    assert all("was killed by SIGKILL" in line for line in said)


async def test_servers_that_move_take_the_worker_along(tmp_path: Path) -> None:
    """A worker learns the addresses at its start, so it is started anew when they change."""
    log = tmp_path / "log"
    program = f"import os, time; open({str(log)!r}, 'a').write(os.environ['PERDURE_TEMPORAL_ADDRESS'] + '\\n'); time.sleep(60)"
    worker, said = worker_of(tmp_path, program)
    now = HERE
    keeping = asyncio.create_task(worker.keep(lambda: now))
    await until(lambda: log.exists() and log.read_text() == f"{HERE.temporal}\n")
    now = THERE
    await until(lambda: log.read_text() == f"{HERE.temporal}\n{THERE.temporal}\n")
    await end(keeping, worker)
    assert said == ["the servers have moved; the worker starts again"]


async def test_servers_that_cannot_be_kept_end_the_worker_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason comes through as it is, after the worker has been stopped."""
    log = tmp_path / "log"
    worker, said = worker_of(tmp_path, f"import time; open({str(log)!r}, 'w').write('.'); time.sleep(60)")
    servers = EmbeddedServers(tmp_path)
    servers.addresses = HERE

    async def fail(_: EmbeddedServers) -> None:
        await until(log.exists)
        raise EmbeddedError("five times in a row")

    monkeypatch.setattr(EmbeddedServers, "supervise", fail)
    with pytest.raises(EmbeddedError, match="five times"):
        await watch(servers, [worker])
    assert said == []


async def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    """After its time a worker is killed with what it has started."""
    log = tmp_path / "log"
    program = (
        "import os, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"child = subprocess.Popen(['sleep', '60']); open({str(log)!r}, 'w').write(f'{{child.pid}}.'); time.sleep(60)"
    )
    worker, said = worker_of(tmp_path, program, patience=0.1)
    keeping = asyncio.create_task(worker.keep(lambda: HERE))
    await until(lambda: log.exists() and log.read_text().endswith("."))
    await end(keeping, worker)
    assert said == ["the worker takes too long and is killed; its runs go on with the next one"]
    status = Path(f"/proc/{log.read_text()[:-1]}/status")
    await until(lambda: not status.exists() or bool(re.search(r"^State:\s+[ZX]", status.read_text(), re.MULTILINE)))


def test_the_worker_knows_the_api_by_its_name_and_trusts_its_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would sign for another DID, and a tool that asks an agent of this folder would reach nobody."""
    for name in ("PERDURE_UAMP_HOST", "PERDURE_UAMP_TRUST"):
        monkeypatch.setenv(name, "")
    settings = Settings(data_folder=tmp_path / ".perdure")
    introduce(settings, 8712)
    known = load_settings(data_folder=settings.data_folder)
    assert known.uamp_host == "localhost:8712"
    assert known.uamp_trust == tmp_path / ".perdure" / "certs" / "ca.pem"
    introduce(known, 9000)
    assert load_settings(data_folder=settings.data_folder) == known
