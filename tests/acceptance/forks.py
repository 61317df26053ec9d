"""Forks `perdure` processes that have imported everything, so that a test may use the command line as often as a user.

A line of JSON on standard input asks for one: {"arguments", "environment", "folder", "stdin", "stdout", "stderr"}, the last
three as paths. Lines on standard output answer {"pid", "number"} at once and {"dead", "code"} when it has ended, by that number:
the kernel gives a pid again to another process, and a test run starts more processes than there are pids. A forked process is
like any other: in a session of its own, with its own files; only imported modules are shared, and no thread runs here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

from perdure.cli import main as cli
from perdure.cli.commands import COMMANDS

_numbers: dict[int, int] = {}
"""Of the processes that have not ended, by pid."""


def _become(order: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    os.dup2(os.open(order["stdin"], os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    sys.argv = ["perdure", *order["arguments"]]
    cli.main()


def _say(**line: Any) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


def _reap(*_: object) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say(dead=_numbers.pop(pid), code=os.waitstatus_to_exitcode(status))


def main() -> None:
    """Fork until standard input ends."""
    for name in COMMANDS:
        import_module(f"perdure.cli.{name}")
    signal.signal(signal.SIGCHLD, _reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number, line in enumerate(sys.stdin):
        order = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            _become(order)
        _numbers[pid] = number
        _say(pid=pid, number=number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


if __name__ == "__main__":
    main()
