"""`perdure demo` as a user runs it: in a process of its own, on the sample, on other folders, and broken off."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure.cli.demo_project.folder import SAMPLE

_SECONDS = 200
_MARK = "PERDURE_TEST_DEMO"
# Not `tmp_path`: the database's own user must be able to enter.
_PLACE = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@dataclass
class Demo:
    """A demo that runs.

    Attributes:
        scratch: where it may make temporary folders.
        mark: in the environment of all processes that come of it.
    """

    scratch: Path
    arguments: tuple[str, ...]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.scratch.mkdir()
        self.scratch.chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        with self.log.open("w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "perdure.cli.main", "demo", *self.arguments],
                cwd=self.scratch.parent,
                env={**environment, _MARK: self.mark, "TMPDIR": str(self.scratch)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> Path:
        return self.scratch.with_suffix(".log")

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(_SECONDS)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)

    def left(self) -> list[str]:
        """Command lines of processes that came of it and still run."""
        return [name for pid, name in _marked(self.mark) if pid != self.process.pid]

    def figure(self, name: str) -> str:
        found = re.search(rf"^{name} +(.*?) *$", self.output, re.MULTILINE)
        assert found is not None, self.output
        return found[1]

    def reported(self) -> set[tuple[str, int]]:
        """Path and line of each finding in the report."""
        found: set[tuple[str, int]] = set()
        path = ""
        for line in self.output.splitlines():
            if line.startswith("## `"):
                path = line[4:-1]
            elif (item := re.match(r"- line (\d+): ", line)) is not None:
                found.add((path, int(item[1])))
        return found


def _marked(mark: str) -> Iterator[tuple[int, str]]:
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def grepped(folder: Path) -> set[tuple[str, int]]:
    """Path and line of what a plain grep finds."""
    done = subprocess.run(
        ["grep", "-rnwEIZ", "--exclude-dir=.git", "TODO|FIXME", "."], cwd=folder, stdout=subprocess.PIPE, check=False
    )
    found: set[tuple[str, int]] = set()
    for line in done.stdout.splitlines():
        path, _, rest = line.decode().partition("\0")
        found.add((path.removeprefix("./"), int(rest.partition(":")[0])))
    return found


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    folder = Path(_PLACE or "/tmp") / f"perdure-test-demo-{uuid.uuid4().hex}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def start(place: Path) -> Iterator[Callable[..., Demo]]:
    """Starts demos and ends whatever they have left."""
    started: list[Demo] = []

    def start(*arguments: str) -> Demo:
        started.append(Demo(place / f"demo{len(started)}", arguments))
        return started[-1]

    yield start
    for demo in started:
        for pid, _ in _marked(demo.mark):
            os.kill(pid, signal.SIGKILL)
        demo.process.wait()


@pytest.fixture(scope="module")
def project(place: Path) -> Path:
    """A folder unlike the sample."""
    folder = place / "größe [bold] 図書館"
    for name, text in {
        "straße 📚.py": "x = 1\n# TODO: ä [red]ö[/red] ü 図\n",
        "with space/a:1:b.c": "/* FIXME */\r\n\r\n// TODO two `ticks` FIXME\r\n",
        "none.txt": "todo TODOS my_TODO\n",
        "empty": "",
        ".hidden/.rc": "# TODO hidden\n",
        ".git/config": "# TODO of the history\n",
        "last line": "TODO without an end",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    (folder / "image.png").write_bytes(b"\x89PNG\0\nTODO\n")
    (folder / "out").symlink_to("/etc")
    return folder


@pytest.fixture(scope="module", autouse=True)
def demos(start: Callable[..., Demo], place: Path, project: Path) -> dict[str, Demo]:
    """The demos that run to their end, all at the same time, which they must bear too."""
    (place / "nothing").mkdir()
    return {"sample": start(), "project": start(str(project)), "nothing": start("nothing"), "missing": start("missing")}


def assert_survived(demo: Demo) -> None:
    assert demo.ended() == 0, demo.output
    assert demo.figure("duplicates") == "0"
    assert demo.figure("run") == "completed"
    assert "worker 1 is killed: SIGKILL" in demo.output
    assert "worker 2 serves" in demo.output
    assert re.search(r"░+ +worker 1 killed, worker 2 goes on", demo.output)
    assert float(demo.figure("recovery").split()[0]) > 0
    assert demo.left() == []
    assert list(demo.scratch.iterdir()) == []


def test_the_sample_is_audited_across_a_kill_in_twelve_steps_or_more(demos: dict[str, Demo]) -> None:
    before = snapshot(SAMPLE)
    demo = demos["sample"]
    assert_survived(demo)
    steps = int(demo.figure("steps"))
    assert steps >= 12
    assert re.findall(r"^ *[\d.]+ s  step +(\d+) ", demo.output, re.MULTILINE) == [str(n) for n in range(1, steps + 1)]
    assert demo.figure("model calls bought") == f"{steps} by the ledger, {steps} answers stored"
    assert demo.figure("tool runs").startswith("16 by the ledger (list_files 1, read_file 14, write_report 1), 16 ")
    assert re.match(r"\d+ events, [\d,]+ bytes in one execution", demo.figure("history"))
    assert demo.reported() == grepped(SAMPLE)
    assert len(demo.reported()) == 13
    assert snapshot(SAMPLE) == before


def test_another_folder_is_audited_as_a_plain_grep_sees_it(demos: dict[str, Demo], project: Path) -> None:
    demo = demos["project"]
    assert_survived(demo)
    assert demo.reported() == grepped(project)
    assert "- line 2: `TODO: ä [red]ö[/red] ü 図`" in demo.output
    assert "- `image.png`: binary" in demo.output
    assert "Not looked into: `.git`." in demo.output


def test_an_empty_folder_gets_a_report_that_says_so(demos: dict[str, Demo]) -> None:
    demo = demos["nothing"]
    assert_survived(demo)
    assert "The folder holds no files; there is nothing to audit." in demo.output
    assert demo.figure("steps") == "3"


def test_a_folder_that_does_not_exist_is_a_clear_error(demos: dict[str, Demo]) -> None:
    demo = demos["missing"]
    assert demo.ended() == 2
    assert demo.output == "error: missing does not exist; name the folder to audit, or none for the sample project\n"


def test_a_demo_that_is_told_to_end_leaves_nothing_behind(start: Callable[..., Demo]) -> None:
    at_start, at_work = start(), start()
    at_start.wait_for("the schema is migrated")
    at_start.process.send_signal(signal.SIGINT)
    at_work.wait_for("step  2")
    at_work.process.send_signal(signal.SIGTERM)
    for demo, code in ((at_start, 130), (at_work, 143)):
        assert demo.ended() == code, demo.output
        assert "Traceback" not in demo.output
        assert demo.left() == []
        assert list(demo.scratch.iterdir()) == []
