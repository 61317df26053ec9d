"""One pair of servers for all tests of this folder that do not bring their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stack import Stack, WorkerProcess


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Supervised servers, migrated; not below pytest's own folder, which it closes to other users now and then."""
    with tempfile.TemporaryDirectory(prefix="perdure-stack-") as folder:
        started = Stack(Path(folder))
        started.start()
        yield started
        started.stop()


@pytest.fixture(scope="module")
def steady_worker(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker that no test kills, for modules whose tests do not bring their own: all serve one task queue."""
    process = WorkerProcess(stack).wait_ready()
    yield process
    process.kill()
