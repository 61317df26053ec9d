"""`perdure serve` for tests: a process of its own before the real servers, spoken to over a real socket."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.integration.stack import ROOT, Stack


class ApiProcess:
    """`perdure serve` on a free port."""

    def __init__(self, stack: Stack, *arguments: str, **environment: str) -> None:
        self._log = stack.folder / f"api-{uuid.uuid4().hex}.log"
        self._log.touch()
        self._child = stack.forks.fork(
            arguments=["serve", "--port", "0", *arguments],
            environment={**os.environ, **stack.addressing, **environment},
            folder=str(ROOT),
            stdin=os.devnull,
            stdout=os.devnull,
            stderr=str(self._log),
        )
        self.pid = self._child.pid

    @property
    def said(self) -> str:
        """What it has written to standard error."""
        return self._log.read_text()

    @property
    def url(self) -> str:
        """Where it is; once it is ready."""
        found = re.search(r"API ready: (https?://\S+)/api", self.said)
        assert found, self.said
        return found[1]

    def wait_ready(self, seconds: float = 120) -> ApiProcess:
        """Return once it serves."""
        end = time.monotonic() + seconds
        while "API ready" not in self.said:
            assert self._child.code is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """SIGKILL."""
        self._child.send(signal.SIGKILL)
        self._child.wait(60)

    def terminate(self, seconds: float = 60) -> int:
        """SIGTERM, and the exit code."""
        self._child.send(signal.SIGTERM)
        return self._child.wait(seconds)

    def wait_dead(self, seconds: float = 90) -> int:
        """Wait for its own end; its exit code."""
        return self._child.wait(seconds)

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient]:
        """A client of its API."""
        async with httpx.AsyncClient(base_url=f"{self.url}/api", timeout=60) as client:
            yield client


def as_json(value: Any) -> dict[str, Any]:
    """How a request carries any JSON, also a lone surrogate, which httpx itself cannot write."""
    return {"content": json.dumps(value), "headers": {"content-type": "application/json"}}


def checked(response: httpx.Response, status: int = 200) -> Any:
    """The body of a response that must have this status."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:2000]}"
    return response.json()


def code_of(response: httpx.Response, status: int) -> str:
    """The code of a problem that must have this status."""
    body = checked(response, status)
    assert response.headers["content-type"] == "application/problem+json"
    assert body["status"] == status
    return str(body["code"])
