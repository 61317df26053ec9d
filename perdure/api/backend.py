"""What every request of a process shares: both servers, one listening connection, one announcer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.api.metrics import Metrics
from perdure.api.patience import Patience
from perdure.errors import SchemaOutdated, ServerUnavailable
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.envelopes.parts import utc_now
from perdure.runtime.event_stream import EventStream
from perdure.runtime.payments import Payments
from perdure.runtime.response_signer import ResponseSigner
from perdure.runtime.sessions import Sessions
from perdure.runtime.signing_keys import STORED, keys_from
from perdure.runtime.stages import Stages
from perdure.runtime.sweep import Sweep
from perdure.runtime.temporal import connect_temporal
from perdure.runtime.uamp.chats import UampChats
from perdure.runtime.uamp.mailbox import MailStream
from perdure.runtime.uamp.seats import Seats
from perdure.runtime.uamp.sweep import UampSweep, UampTimes
from perdure.store.content.signed_urls import UrlSigner, read_signer
from perdure.store.database import Database
from perdure.store.encryption_keys import check_keys
from perdure.store.events import Announcer, Event
from perdure.store.payments.ledger_gate import known_gates
from perdure.store.uamp.mail import CHANNEL as MAIL_CHANNEL
from perdure.uap.payments import PaymentGate
from perdure.uap.session_key import SessionKey
from perdure.uap.voice import VoiceBackend

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
        mail: of sessions of UAMP; and
        mail_announcer: tells those who follow it.
        seats: the connections of UAMP that this process holds.
        patience: how long streams of events wait.
        signer: signs responses.
        voice: takes calls of clients that want to speak; None if nothing does.
        clock: the time by which the door of envelopes decides.
        leaving: set once the process is to end: whoever waits for a run is answered now.
    """

    def __init__(
        self,
        addresses: ServerAddresses,
        *,
        namespace: str = "default",
        signing_key: str = STORED,
        uamp: UampTimes | None = None,
        gate: PaymentGate | None = None,
        voice: VoiceBackend | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Prepare; nothing is connected before `open`.

        Args:
            addresses: of the servers.
            namespace: of Temporal's.
            signing_key: see `keys_from`.
            uamp: how long sessions of UAMP are kept; by default as the settings have it.
            gate: of payments, if agents are paid for through one of their app's own.
            voice: takes calls, if the app has something that does.
            clock: the time, for what the door of envelopes decides by it.

        Raises:
            InvalidInput: the signing key cannot be used.
        """
        self._addresses = addresses
        self._namespace = namespace
        self._client: Client | None = None
        self._sweeping: list[asyncio.Task[None]] = []
        self.database = Database(addresses.database_url, keyring=addresses.keyring)
        self.metrics = Metrics()
        self.announcer = Announcer(self.database)
        self.stream: EventStream = MeasuredStream(self.database, self.metrics)
        self.signer = ResponseSigner(keys_from(signing_key, self.database))
        self.leaving = asyncio.Event()
        self.patience = Patience()
        self.mail = MailStream(self.database)
        self.mail_announcer = Announcer(self.database, MAIL_CHANNEL)
        self.seats = Seats(self.database, self.mail_announcer)
        self._uamp_times = uamp or UampTimes()
        self._gates = known_gates(self.database, gate)
        self.voice = voice
        self.clock = clock
        self._url_signer: UrlSigner | None = None

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
            uamp = UampSweep(self.database, self.mail_announcer, self._uamp_times)
            self._sweeping = [
                asyncio.create_task(Sweep(self._client, self.database).run(), name="sweep"),
                asyncio.create_task(uamp.run(), name="sweep of UAMP's sessions"),
            ]

    async def close(self) -> None:
        """Let go of everything. Harmless if it has been done."""
        self.leaving.set()
        for task in self._sweeping:
            task.cancel()
        await asyncio.gather(*self._sweeping, return_exceptions=True)
        await self.seats.close()
        await self.mail_announcer.close()
        await self.announcer.close()
        await self.mail.close()
        await self.stream.close()
        await self.database.close()

    def sessions(self, tenant: str) -> Sessions:
        """The sessions of a tenant. Not to be closed: what they hold is everybody's."""
        return Sessions(self.client, self.database, tenant, announcer=self.announcer, stream=self.stream)

    def chats(self, tenant: str) -> UampChats:
        """The chats of a tenant's sessions of UAMP."""
        return UampChats(self.database, tenant, self.mail_announcer)

    def payments(self, tenant: str) -> Payments:
        """The payments of a tenant's runs."""
        return Payments(self.sessions(tenant), self._gates)

    def stages(self, tenant: str) -> Stages:
        """The stage sessions of a tenant; likewise."""
        return Stages(self.client, self.database, tenant, announcer=self.announcer, stream=self.stream)

    async def url_signer(self) -> UrlSigner:
        """Signs addresses of stored media, as all replicas do."""
        if self._url_signer is None:
            self._url_signer = await read_signer(self.database)
        return self._url_signer

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
