"""One pair of servers for all tests of this folder that do not bring their own."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from sqlalchemy import make_url

from perdure.runtime.addresses import find_keyring
from perdure.store.database import Database
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from tests.integration.rebuilt_sessions import APP as REBUILT_APP
from tests.integration.rebuilt_sessions import NAME as REBUILT
from tests.integration.rebuilt_sessions import Forgotten, Snapshot, make_eventful, make_forgotten
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.store_story import CONNECTIONS, Story

if TYPE_CHECKING:
    from tests.integration.mcp_place import McpPlace


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(stack: Stack) -> AsyncGenerator[Database]:
    """Connections that no worker uses; each test of the store has a tenant and a session of its own."""
    opened = Database(stack.addresses.database_url, pool_size=CONNECTIONS, keyring=find_keyring())
    yield opened
    await opened.close()


@pytest.fixture
async def empty(stack: Stack) -> AsyncGenerator[str]:
    """The URL of a database with nothing in it, dropped after the test."""
    name = f"migrations_{uuid.uuid4().hex}"
    server = Database(stack.addresses.database_url)
    async with server.driver() as connection:
        await connection.execute(f"create database {name}")
    yield make_url(stack.addresses.database_url).set(database=name).render_as_string(hide_password=False)
    async with server.driver() as connection:
        await connection.execute(f"drop database {name} with (force)")
    await server.close()


@pytest.fixture
def story(database: Database) -> Story:
    """A session that is not there yet."""
    return Story(database, SessionKey(f"tenant-{uuid.uuid4().hex}", new_id()))


@pytest.fixture(scope="session")
def rebuilt_worker(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker whose sessions continue as new every few steps."""
    environment = {"PERDURE_TASK_QUEUE": REBUILT, "PERDURE_CONTINUE_AS_NEW_EVENTS": "100", "PERDURE_FOLD_AFTER": "3600"}
    process = WorkerProcess(stack, REBUILT_APP, **environment).wait_ready()
    yield process
    process.kill()


@pytest.fixture(scope="session")
def forgotten(stack: Stack, rebuilt_worker: WorkerProcess) -> Forgotten:
    """The deletion is asked for early, for it takes half a minute, in which other tests run."""
    return asyncio.run(make_forgotten(stack))


@pytest.fixture(scope="session")
def eventful(stack: Stack, rebuilt_worker: WorkerProcess, forgotten: Forgotten) -> tuple[SessionKey, Snapshot]:
    """A closed session in which runs completed, failed and were cancelled, and what its rows are."""
    return asyncio.run(make_eventful(stack))


@pytest.fixture(scope="session")
def mcp_place(stack: Stack) -> Iterator[McpPlace]:
    """Two API processes and a worker with a shop, in a database with keys; no test kills them."""
    from tests.integration.mcp_place import opened_place  # the client takes long to import

    with opened_place(stack) as place:
        yield place
