"""The command line as a user has it: each command a process of its own, in a folder, with its output in files."""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Child:
    """A process that was forked. Once it has ended its pid may be another's."""

    def __init__(self, forks: Forks, pid: int, number: int) -> None:
        self._forks, self._number, self.pid = forks, number, pid

    @property
    def code(self) -> int | None:
        """Its exit code, minus the signal's number if one has killed it; None while it runs."""
        return self._forks.code(self._number)

    def wait(self, seconds: float) -> int:
        """Wait for its end and return its exit code."""
        return self._forks.wait(self._number, seconds)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        if self.code is None:
            os.kill(self.pid, number)


class Forks:
    """The process that forks commands; see `tests.acceptance.forks`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.forks"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._born: queue.Queue[tuple[int, int]] = queue.Queue()
        self._codes: dict[int, int] = {}
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            if "pid" in line:
                self._born.put((line["pid"], line["number"]))
            else:
                with self._news:
                    self._codes[line["dead"]] = line["code"]
                    self._news.notify_all()

    def fork(self, **order: Any) -> Child:
        """Start a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Child(self, *self._born.get(timeout=180))

    def code(self, number: int) -> int | None:
        """The exit code of a command that has ended."""
        with self._news:
            return self._codes.get(number)

    def wait(self, number: int, seconds: float) -> int:
        """Wait for a command's end."""
        with self._news:
            assert self._news.wait_for(lambda: number in self._codes, seconds), f"process {number} did not end"
            return self._codes[number]

    def close(self) -> None:
        """End the forking process; its children must have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(180)
        self._reader.join(180)
        self._process.stdout.close()


class Command:
    """A command that runs or has run."""

    def __init__(self, child: Child, place: Path) -> None:
        self._child = child
        self._place = place
        self.pid = child.pid

    @property
    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._place.with_suffix(".out").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._place.with_suffix(".err").read_text(encoding="utf-8")

    @property
    def json(self) -> Any:
        """The one document that it has written to stdout."""
        return json.loads(self.out)

    @property
    def session(self) -> str:
        """The session that a waiting `run` has named on stderr."""
        found = re.search(r"of session ([0-9a-f-]{36})", self.err)
        assert found, self.err
        return found[1]

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._child.code

    def wait(self, seconds: float = 180) -> int:
        """Wait for its end and return its exit code."""
        return self._child.wait(seconds)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, as the terminal or an operator would."""
        self._child.send(number)

    def until(self, condition: Callable[[], bool], seconds: float = 180) -> None:
        """Wait for a condition that it brings about while it runs."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.code is None, f"it ended with {self.code}: {self.out}{self.err}"
            assert time.monotonic() < end, f"it did not happen in time: {self.out}{self.err}"
            time.sleep(0.02)

    def check_error(self, *words: str) -> None:
        """It said what was wrong in one line for people, with these words, and nothing of our insides."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        assert all(word in lines[0] for word in words), lines[0]


class Terminal:
    """Runs `perdure` in one folder, with an environment that names no servers."""

    def __init__(self, forks: Forks, folder: Path, **environment: str) -> None:
        self.folder = folder
        self._forks = forks
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_TE", "PERDURE_DA"))
        }
        self._environment = {**inherited, "PYTHONPATH": str(ROOT), **environment}
        self._numbers = itertools.count()
        self._files = folder / "terminal"
        self._files.mkdir(exist_ok=True)

    def with_environment(self, **environment: str) -> Terminal:
        """The same folder, other settings."""
        other = Terminal(self._forks, self.folder, **{**self._environment, **environment})
        other._numbers = self._numbers
        return other

    def start(self, *arguments: str, stdin: str = "") -> Command:
        """Start a command and go on."""
        place = self._files / f"{next(self._numbers):03}"
        for suffix, text in ((".in", stdin), (".out", ""), (".err", "")):
            place.with_suffix(suffix).write_text(text, encoding="utf-8")
        child = self._forks.fork(
            arguments=arguments,
            environment=self._environment,
            folder=str(self.folder),
            stdin=str(place.with_suffix(".in")),
            stdout=str(place.with_suffix(".out")),
            stderr=str(place.with_suffix(".err")),
        )
        return Command(child, place)

    def reached(self, *arguments: str) -> Command:
        """Run a control that may be asked for again, until what it says is not that its worker is still busy."""
        end = time.monotonic() + 120
        while '"recorded"' in (command := self(*arguments)).out or command.out.startswith("recorded"):
            assert time.monotonic() < end, command.out
        return command

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> Command:
        """Run a command to its end, which must be this one."""
        command = self.start(*arguments, stdin=stdin)
        ended = command.wait()
        assert ended == code, f"exit code {ended}: {command.out}{command.err}"
        return command
