"""CPU time and memory by role, of real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from benchmarks.processes import ProcessGone, Roles

BURN = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\n"
TOLD = "import sys\nsys.stdin.readline()\n"
DONE = "print('done', flush=True)\nsys.stdin.readline()\n"
STARTS = """
import subprocess
import sys

started = subprocess.Popen([sys.executable, "-S", "-c", {code!r}], stdin=-1, stdout=-1, text=True)
print(started.pid, flush=True)
sys.stdin.readline()
started.stdin.write("\\n")
started.stdin.flush()
print(started.stdout.readline(), end="", flush=True)
sys.stdin.readline()
started.kill()
"""


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


def tell(process: subprocess.Popen[str], *, ends: bool = False) -> None:
    """Have it go on, and wait until it has, or until it has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == ("" if ends else "done\n")


def test_the_time_of_a_process_counts_for_its_role_alone() -> None:
    """Also if a process of another role has started it."""
    with child(STARTS.format(code=TOLD + BURN.format(seconds=1.0) + DONE)) as driver, child(TOLD + DONE) as other:
        assert driver.stdout is not None
        worker = int(driver.stdout.readline())
        roles = Roles({"worker": [worker], "other": [other.pid], "driver": [driver.pid]})
        before = roles.sample()
        tell(driver)
        after = roles.sample()
        assert after.cpu_ms["worker"] - before.cpu_ms["worker"] == pytest.approx(1000, abs=100)
        assert after.cpu_ms["other"] == before.cpu_ms["other"]
        assert after.cpu_ms["driver"] - before.cpu_ms["driver"] < 300
        assert after.machine_ms - before.machine_ms >= 180
        tell(driver, ends=True)


def test_what_a_process_starts_counts_for_it_also_when_it_has_ended() -> None:
    inner = (
        f"import subprocess\nsubprocess.run([sys.executable, '-S', '-c', {BURN.format(seconds=0.2)!r}], check=True)\n"
    )
    with child(TOLD + inner + DONE) as worker:
        roles = Roles({"worker": [worker.pid]})
        before = roles.sample()
        tell(worker)
        assert 180 <= roles.sample().cpu_ms["worker"] - before.cpu_ms["worker"] < 1000  # a start of Python is in it


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
