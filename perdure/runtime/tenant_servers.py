"""The servers of one tenant, as sessions of agents and of stage workflows share them."""

from __future__ import annotations

from temporalio.client import Client

from perdure.runtime.event_stream import EventStream
from perdure.store.database import Database
from perdure.store.events import Announcer


class TenantServers:
    """Both servers, the tenant, and how events are told and followed."""

    def __init__(
        self,
        client: Client,
        database: Database,
        tenant: str,
        *,
        announcer: Announcer | None = None,
        stream: EventStream | None = None,
    ) -> None:
        """Use these servers for one tenant; a process with many tenants gives all of them one announcer and stream."""
        self.client = client
        self.database = database
        self.tenant = tenant
        self.announcer = announcer or Announcer(database)
        self.stream = stream or EventStream(database)

    async def close(self) -> None:
        """Stop following events."""
        await self.announcer.close()
        await self.stream.close()
