"""One pair of servers for all tests of this folder that do not bring their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.stack import Stack, WorkerProcess


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Supervised servers, migrated."""
    started = Stack(tmp_path_factory.mktemp("stack"))
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def steady_worker(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker that no test kills, for modules whose tests do not bring their own: all serve one task queue."""
    process = WorkerProcess(stack).wait_ready()
    yield process
    process.kill()
