"""What every part of `Sessions` needs: both servers, the tenant, and the way to wake a session."""

from __future__ import annotations

import logging

from temporalio.client import Client

from perdure.errors import ServerUnavailable
from perdure.runtime.event_stream import EventStream
from perdure.runtime.temporal import SessionAddress, wake
from perdure.store.agents import AgentRow
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.uap.session_key import SessionKey, known_session_id

logger = logging.getLogger(__name__)


class SessionServers:
    """The servers of one tenant's sessions."""

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

    def key_of(self, session: str) -> SessionKey:
        """The key of a session that is there already.

        Raises:
            InvalidInput: no session can have that id.
        """
        return SessionKey(self.tenant, known_session_id(session))

    async def wake(self, address: SessionAddress) -> None:
        """Have a session look into its inbox; where Temporal is away a worker's sweep does it later."""
        try:
            await wake(self.client, address)
        except ServerUnavailable as error:  # the row is the acknowledgement
            logger.warning("input.wake_deferred session=%s %s", address.key.session, error)


def address_of(key: SessionKey, agent: AgentRow) -> SessionAddress:
    """What it takes to wake a session of an agent."""
    return SessionAddress(key, agent.name, agent.workflow_type, agent.task_queue)
