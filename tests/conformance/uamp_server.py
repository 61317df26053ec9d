"""Our own UAMP server for the checks: real Temporal and PostgreSQL, a worker and an API, each a process, keys for two users."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from perdure.store.api_keys import create_key
from perdure.store.database import Database
from perdure.store.payments.accounts import issue_token, open_account, top_up
from tests.conformance.uamp_agents import PRICES
from tests.conformance.uamp_client import Line, line_to
from tests.integration.access_stage import own_database
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess

APP = "tests.conformance.uamp_agents:app"
TENANT = "default"


@dataclass
class UampServer:
    """Where a server is, and what may be done to it.

    Attributes:
        stack: its servers.
        database_url: of a database that nobody else uses.
        gates: the folder in which gates of plans are opened.
        tokens: API keys by user; `reader` may not run.
        environment: of its processes.
    """

    stack: Stack
    database_url: str
    gates: Path
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def begin(self) -> None:
        """Start its processes."""
        self.worker, self.api = self.new_worker(), self.new_api()
        self.worker.wait_ready()
        self.api.wait_ready()

    def new_worker(self, **environment: str) -> WorkerProcess:
        """Another worker."""
        return WorkerProcess(self.stack, APP, **self.environment, **environment)

    def new_api(self, **environment: str) -> ApiProcess:
        """Another API process."""
        return ApiProcess(self.stack, **self.environment, **environment)

    @property
    def url(self) -> str:
        """Of its API, without a path."""
        return self.api.url

    @asynccontextmanager
    async def line(self, kind: str, user: str | None = "ann", *, url: str | None = None) -> AsyncGenerator[Line]:
        """A connection whose sessions are a user's, or nobody's."""
        async with line_to(url or self.url, kind, None if user is None else self.tokens[user]) as line:
            yield line

    async def funded(self, amount: str) -> str:
        """A payment token with a balance of so many USD."""
        database = Database(self.database_url, pool_size=1)
        account = await open_account(database, TENANT, f"account {uuid.uuid4().hex}", "USD")
        if Decimal(amount):
            await top_up(database, TENANT, account.id, "first", Decimal(amount))
        token = await issue_token(database, TENANT, account.id)
        await database.close()
        return token

    def open_gate(self, name: str) -> None:
        """Have whoever waits at it go on."""
        (self.gates / name).touch()


def new_gate() -> str:
    """A gate's name."""
    return uuid.uuid4().hex


async def _keys(url: str) -> dict[str, str]:
    database = Database(url, pool_size=1)
    users = {"ann": ["read", "run"], "bob": ["read", "run"], "reader": ["read"]}
    keys = {user: (await create_key(database, TENANT, user, scopes))[1] for user, scopes in users.items()}
    await database.close()
    return keys


@contextmanager
def uamp_server(stack: Stack, **environment: str) -> Generator[UampServer]:
    """A server of the agents of `uamp_agents.py`, while the context lasts; its processes get this environment, too."""
    gates = stack.folder / f"gates-{uuid.uuid4().hex}"
    gates.mkdir()
    with own_database(stack) as url:
        own = {
            "PERDURE_DATABASE_URL": url,
            "PERDURE_TASK_QUEUE": f"uamp-{uuid.uuid4().hex}",
            "PERDURE_UAMP_GATES": str(gates),
            "PERDURE_PRICES": json.dumps(PRICES),
            **environment,
        }
        served = UampServer(stack, url, gates, asyncio.run(_keys(url)), own)
        try:
            served.begin()
            yield served
        finally:
            served.worker.kill()
            served.api.kill()
