"""What every part of `Sessions` needs: the tenant's servers, and the way to wake a session."""

from __future__ import annotations

import logging

from perdure.errors import ServerUnavailable
from perdure.runtime.temporal import SessionAddress, wake
from perdure.runtime.tenant_servers import TenantServers
from perdure.store.agents import AgentRow
from perdure.uap.session_key import SessionKey, known_session_id

logger = logging.getLogger(__name__)


class SessionServers(TenantServers):
    """The servers of one tenant's sessions."""

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
