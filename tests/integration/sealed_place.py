"""A database of its own that is sealed, workers and commands with its keys, and everything that is stored there, raw."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from temporalio.client import Client

from perdure.runtime.connect import connect
from perdure.runtime.sessions import Sessions
from perdure.store.keyring import new_key, parse_keys
from tests.integration.durable_sessions import make_database
from tests.integration.stack import ROOT, Stack, WorkerProcess

APP = "tests.integration.sealed_agents:app"


@dataclass
class SealedPlace:
    """Where everything is under keys."""

    stack: Stack
    url: str
    keys: list[str]
    queue: str = field(default_factory=lambda: f"sealed-{uuid.uuid4().hex}")
    said: list[str] = field(default_factory=list[str])

    def environment(self, keys: Sequence[str] | None = None) -> dict[str, str]:
        """That of a process with these keys; by default with all, the first one first."""
        given = ",".join(self.keys if keys is None else keys)
        return {
            "PERDURE_DATABASE_URL": self.url,
            "PERDURE_TASK_QUEUE": self.queue,
            "PERDURE_ENCRYPTION_KEYS": given,
        }

    @contextmanager
    def worker(self, keys: Sequence[str] | None = None, **more: str) -> Generator[WorkerProcess]:
        """A worker with these keys, dead at the end."""
        process = WorkerProcess(self.stack, APP, **self.environment(keys), **more)
        try:
            yield process.wait_ready()
        finally:
            process.kill()
            self.said.append(process.said)

    @asynccontextmanager
    async def connect(self, keys: Sequence[str] | None = None) -> AsyncGenerator[Sessions]:
        """Another process with these keys."""
        keyring = parse_keys(",".join(self.keys if keys is None else keys))
        addresses = self.stack.addresses
        async with connect(temporal_address=addresses.temporal, database_url=self.url, keyring=keyring) as sessions:
            yield sessions

    def command(self, *arguments: str, keys: Sequence[str] | None = None) -> tuple[int, str, str]:
        """`perdure` with these arguments: its exit code, and what it wrote to stdout and stderr."""
        environment = {**os.environ, **self.stack.addressing, **self.environment(keys)}
        done = subprocess.run(
            [str(Path(sys.executable).with_name("perdure")), *arguments],
            env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    async def change(self, statement: str, *arguments: object) -> None:
        """Change rows behind the back of everything."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement, *arguments)
        finally:
            await connection.close()

    async def dump(self) -> dict[str, str]:
        """Every row of every table, as text, without any key."""
        connection = await asyncpg.connect(self.url)
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'perdure'")
        found = {
            table: "\n".join(
                row[0] for row in await connection.fetch(f"select to_jsonb(t)::text from perdure.{table} t")
            )
            for (table,) in tables
        }
        await connection.close()
        return found


async def make_place(stack: Stack, *, keys: int = 1) -> SealedPlace:
    """A fresh one."""
    url = await make_database(stack, f"sealed_{uuid.uuid4().hex}")
    return SealedPlace(stack, url, [new_key(f"key-{place}") for place in range(keys)])


def forms(word: str) -> list[str]:
    """How a word may be written in a dump: as it is, in hexadecimal, and in base64 wherever it begins."""
    data = word.encode()
    inner = [base64.b64encode(b"\0" * shift + data).decode()[4:-4] for shift in range(3)]
    return [word, data.hex(), *inner]


async def raw_histories(client: Client, ids: Sequence[str]) -> dict[str, bytes]:
    """The histories of workflows as Temporal has them."""
    found: dict[str, bytes] = {}
    for workflow in ids:
        events = client.get_workflow_handle(workflow).fetch_history_events()
        found[workflow] = b"".join([event.SerializeToString() async for event in events])
    return found
