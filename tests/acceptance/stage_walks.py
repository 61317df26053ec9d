"""An example of stages as its docstring has it walked: `perdure dev` serves it, and its `curl` lines are sent."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.terminal import ROOT, Forks, Terminal

_BODY = re.compile(r"'(\{\"workflow_name\".*?\})'", re.DOTALL)


def bodies(example: str) -> list[dict[str, Any]]:
    """What the lines of an example's docstring send, in their order."""
    text = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8").split('"""')[1]
    return [json.loads(found) for found in _BODY.findall(text)]


@contextmanager
def served(forks: Forks, folder: Path, target: str, **environment: str) -> Generator[tuple[Terminal, str]]:
    """A terminal in a folder where `perdure dev` serves an app, and the API's address."""
    terminal = Terminal(forks, folder, **environment)
    server = terminal.start("dev", target)
    server.until(lambda: "worker ready" in server.err and "API ready" in server.err)
    found = re.search(r"API ready: (http://\S+)", server.err)
    assert found, server.err
    try:
        yield terminal, found[1].removesuffix("/api")
    finally:
        server.send(signal.SIGTERM)
        server.wait()


@dataclass
class Walk:
    """A client of the door that does what it is told, line by line.

    Attributes:
        url: of the door.
        session: the last one that was opened.
        replies: to all that was sent, oldest first, with their statuses.
    """

    url: str
    session: str = ""
    replies: list[tuple[int, Any]] = field(default_factory=list[tuple[int, Any]])

    def send(self, body: Mapping[str, Any], **headers: str) -> Any:
        """Send one line: one without an action opens a session, in which those after it act."""
        opens = "action" not in body
        given = headers if opens else {"X-Session-Id": self.session, **headers}
        answer = httpx.post(f"{self.url}/{'initialize' if opens else 'execute'}", json=body, headers=given, timeout=60)
        self.replies.append((answer.status_code, answer.json()))
        if opens:
            self.session = answer.json()["session_id"]
        return answer.json()
