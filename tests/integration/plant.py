"""Servers that stand for themselves, as operators run them: Perdure's processes know nothing of them but two addresses."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from perdure.embedded.servers import Addresses
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess

APP = "tests.integration.distributed_agents:app"
ROLE = "agents"
UNFOLDED = {"PERDURE_FOLD_AFTER": "3600"}
"""A viewer's events and the log's are compared one by one, however long the test takes."""


class Plant(Stack):
    """A Temporal, and a PostgreSQL where an empty database belongs to a role that may do nothing else."""

    def start(self) -> None:
        """Start both; the database is migrated by `perdure migrate`, as on any server."""
        self._password = secrets.token_hex(16)
        super().start()

    @property
    def addresses(self) -> Addresses:
        """Temporal's, and the role's own way into its database, over TCP with a password."""
        given = self.servers.addresses
        place = given.database_url.rpartition("@")[2].partition("/")[0]
        return Addresses(given.temporal, f"postgresql://{ROLE}:{self._password}@{place}/{ROLE}")

    async def _migrate(self) -> None:
        connection = await asyncpg.connect(self.servers.addresses.database_url)
        try:
            await connection.execute(f"create role {ROLE} login password '{self._password}'")
            await connection.execute(f"create database {ROLE} owner {ROLE}")
        finally:
            await connection.close()

    def migrate_as_a_job(self) -> int:
        """`perdure migrate` as a process; its exit code."""
        child = self.forks.fork(
            arguments=["migrate"],
            environment={**os.environ, **self.addressing},
            folder=str(self.folder),
            stdin=os.devnull,
            stdout=os.devnull,
            stderr=os.devnull,
        )
        return child.wait(120)


@dataclass
class Processes:
    """Two workers and two API processes; whoever kills one puts another in its place."""

    plant: Plant
    workers: list[WorkerProcess]
    apis: list[ApiProcess]

    async def replace_worker(self, place: int) -> None:
        """SIGKILL, and another one."""
        self.workers[place].kill()
        self.workers[place] = await asyncio.to_thread(WorkerProcess(self.plant, APP, **UNFOLDED).wait_ready)

    async def kill_api(self, place: int) -> None:
        """SIGKILL."""
        await asyncio.to_thread(self.apis[place].kill)

    async def start_api(self, place: int) -> None:
        """Another one in the place of one that was killed."""
        self.apis[place] = await asyncio.to_thread(ApiProcess(self.plant).wait_ready)


@asynccontextmanager
async def processes(plant: Plant) -> AsyncGenerator[Processes, None]:
    """All of them serve; they are killed at the end."""
    workers = [WorkerProcess(plant, APP, **UNFOLDED) for _ in range(2)]
    started = Processes(plant, workers, [ApiProcess(plant) for _ in range(2)])
    try:
        for process in (*started.workers, *started.apis):
            await asyncio.to_thread(process.wait_ready)
        yield started
    finally:
        for process in (*started.workers, *started.apis):
            process.kill()
