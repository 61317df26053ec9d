"""CPU time and memory by role, of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from benchmarks.processes import ProcessGone, Roles

BURN = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\n"
TOLD = "import sys\nsys.stdin.readline()\n"
DONE = "print('done', flush=True)\nsys.stdin.readline()\n"


@contextmanager
def child(code: str) -> Generator[subprocess.Popen[str], None, None]:
    """A Python process; told by a line, and it says one."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str]) -> None:
    """Have it go on, and wait until it has."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def test_the_time_of_a_process_counts_for_its_role_alone() -> None:
    with child(TOLD + BURN.format(seconds=1.0) + DONE) as worker, child(TOLD + DONE) as other:
        roles = Roles({"worker": [worker.pid], "other": [other.pid], "driver": [os.getpid()]})
        before = roles.sample()
        tell(worker)
        after = roles.sample()
        assert after.cpu_ms["worker"] - before.cpu_ms["worker"] == pytest.approx(1000, abs=100)
        assert after.cpu_ms["other"] == before.cpu_ms["other"]
        assert after.cpu_ms["driver"] - before.cpu_ms["driver"] < 900  # its own threads
        assert after.machine_ms - before.machine_ms >= 180


def test_what_a_process_starts_counts_for_it_also_when_it_has_ended() -> None:
    inner = (
        f"import subprocess\nsubprocess.run([sys.executable, '-S', '-c', {BURN.format(seconds=0.2)!r}], check=True)\n"
    )
    with child(TOLD + inner + DONE) as worker:
        roles = Roles({"worker": [worker.pid]})
        before = roles.sample()
        tell(worker)
        assert roles.sample().cpu_ms["worker"] - before.cpu_ms["worker"] == pytest.approx(230, abs=90)


def test_a_process_that_has_ended_is_noticed() -> None:
    with child(TOLD + DONE) as worker:
        roles = Roles({"worker": [worker.pid]})
        worker.kill()
        worker.wait()
        with pytest.raises(ProcessGone, match=f"the worker process {worker.pid} has ended"):
            roles.sample()
        with pytest.raises(ProcessGone, match="does not run"):
            Roles({"worker": [worker.pid]})


def test_memory_is_that_of_the_process() -> None:
    with child(TOLD + "block = bytearray(64 * 2**20)\n" + DONE) as worker:
        roles = Roles({"worker": [worker.pid]})
        before = roles.memory()["worker"]
        tell(worker)
        after = roles.memory()["worker"]
        assert after.pss_bytes - before.pss_bytes == pytest.approx(64 * 2**20, rel=0.1)
        assert after.rss_bytes >= after.pss_bytes
