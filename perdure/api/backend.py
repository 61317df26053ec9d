"""What every request of a process shares: both servers, one listening connection, one announcer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.api.metrics import Metrics
from perdure.api.patience import Patience
from perdure.errors import SchemaOutdated, ServerUnavailable
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.event_stream import EventStream
from perdure.runtime.sessions import Sessions
from perdure.runtime.sweep import Sweep
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.store.encryption_keys import check_keys
from perdure.store.events import Announcer, Event
from perdure.uap.session_key import SessionKey

_HEALTH_TIMEOUT = timedelta(seconds=2)


class MeasuredStream(EventStream):
    """The event stream of a process that counts its readers and how late events reach them."""

    def __init__(self, database: Database, metrics: Metrics) -> None:
        """Follow the events in `database`."""
        super().__init__(database)
        self._metrics = metrics

    async def follow_pages(
        self, key: SessionKey, *, after: int = 0, most_behind: int | None = None
    ) -> AsyncGenerator[list[Event], None]:
        with self._metrics.open_stream() as seen:
            async with aclosing(super().follow_pages(key, after=after, most_behind=most_behind)) as pages:
                async for page in pages:
                    for event in page:
                        seen(event)
                    yield page


class Backend:
    """The servers behind the API.

    Attributes:
        database: PostgreSQL.
        metrics: what this process has counted.
        patience: how long streams of events wait.
        leaving: set once the process is to end: whoever waits for a run is answered now.
    """

    def __init__(self, addresses: ServerAddresses, *, namespace: str = "default") -> None:
        """Prepare; nothing is connected before `open`."""
        self._addresses = addresses
        self._namespace = namespace
        self._client: Client | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.database = Database(addresses.database_url, keyring=addresses.keyring)
        self.metrics = Metrics()
        self.announcer = Announcer(self.database)
        self.stream: EventStream = MeasuredStream(self.database, self.metrics)
        self.leaving = asyncio.Event()
        self.patience = Patience()

    async def open(self) -> None:
        """Connect. Harmless if it has been done.

        Raises:
            ServerUnavailable: a server does not answer within 10 s.
            SchemaOutdated: the database needs `perdure migrate`.
            KeyMissing: the database holds what this process cannot open.
        """
        if self._client is None:
            await check_schema(self.database)
            await check_keys(self.database)
            self._client = await connect_temporal(self._addresses.temporal, self._namespace, database=self.database)
            self._sweeping = asyncio.create_task(Sweep(self._client, self.database).run(), name="sweep")

    async def close(self) -> None:
        """Let go of everything. Harmless if it has been done."""
        self.leaving.set()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self.announcer.close()
        await self.stream.close()
        await self.database.close()

    def sessions(self, tenant: str) -> Sessions:
        """The sessions of a tenant. Not to be closed: what they hold is everybody's."""
        return Sessions(self.client, self.database, tenant, announcer=self.announcer, stream=self.stream)

    @property
    def client(self) -> Client:
        """Temporal's client."""
        assert self._client is not None, "the app's lifespan opens the backend"
        return self._client

    async def readiness(self) -> dict[str, str]:
        """The state of each server: "ok", "away" or, of the schema's revision, "outdated" or "unknown"."""
        temporal, (postgres, schema) = await asyncio.gather(self._temporal(), self._postgres())
        return {"temporal": temporal, "postgres": postgres, "revision": schema}

    async def _temporal(self) -> str:
        try:
            await self.client.service_client.check_health(timeout=_HEALTH_TIMEOUT)
        except RPCError:
            return "away"
        return "ok"

    async def _postgres(self) -> tuple[str, str]:
        try:
            await check_schema(self.database)
        except ServerUnavailable:
            return "away", "unknown"
        except SchemaOutdated:
            return "ok", "outdated"
        return "ok", "ok"


@asynccontextmanager
async def opened(backend: Backend) -> AsyncGenerator[Backend]:
    """The backend, open inside the block."""
    try:
        await backend.open()
        yield backend
    finally:
        await backend.close()
