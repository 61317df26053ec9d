"""Forks ready-made `perdure` processes, so that a test that needs two workers does not import everything twice.

A line of JSON on standard input asks for one: {"environment", "arguments", "stderr" (a path)}. Lines on standard output
answer: {"pid"} at once, {"dead", "code"} when it has ended. A forked process is like any other: its own process group,
its own connections; nothing but imported modules is shared, and no thread runs before the fork.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, NoReturn

import tests.integration.agents  # noqa: F401 -- what the workers will need
from perdure.cli import main as cli
from perdure.worker import main as worker_main  # noqa: F401 -- likewise


def _become(order: dict[str, Any]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.environ.update(order["environment"])
    stderr = os.open(order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stderr, 2)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
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
        _say(dead=pid, code=os.waitstatus_to_exitcode(status))


def serve() -> None:
    """Fork on demand until standard input ends."""
    signal.signal(signal.SIGCHLD, _reap)
    for line in sys.stdin:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            _become(json.loads(line))
        _say(pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


if __name__ == "__main__":
    serve()
