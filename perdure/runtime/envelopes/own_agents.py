"""The agents that are served here, by their DIDs: what is `to` whom, and as whom we sign.

The host's DID is the default agent's, and each agent has one below it besides: `did:web:HOST:agents:NAME`.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.did_web import read_web_did, web_did
from perdure.store.agents import AgentRow, first_agent
from perdure.store.database import Database
from perdure.store.pages import list_agents

AGENTS = "agents"
"""The segment above an agent's name, in its DID and in the paths of its documents."""

_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class OwnAgent:
    """An agent that is served here under a DID.

    Attributes:
        did: the name under which others know it.
        agent: its name here.
        is_default: whether the DID is the host's.
    """

    did: str
    agent: str
    is_default: bool


class OwnAgents:
    """The agents of a tenant under the name of a host. What workers have registered is read each time."""

    def __init__(self, database: Database, tenant: str, host: str) -> None:
        """Read nothing yet.

        Args:
            database: where workers register their agents.
            tenant: whose agents they are.
            host: the name under which others reach this server, with its port if that is not 443.

        Raises:
            InvalidInput: the name cannot stand in a DID; an address cannot.
        """
        name, _, port = host.partition(":")
        number = int(port) if port.isdecimal() and int(port) != _HTTPS_PORT else None
        self._database = database
        self._tenant = tenant
        self._host = name
        self._port = number
        self.host_did = web_did(name, port=number)

    @property
    def base_url(self) -> str:
        """Where this server is, as others reach it."""
        return f"https://{read_web_did(self.host_did).authority}"

    def did_of(self, agent: str) -> str:
        """The DID of an agent below the host's.

        Raises:
            InvalidInput: its name cannot stand in a DID.
        """
        return web_did(self._host, AGENTS, agent, port=self._port)

    def is_of_this_host(self, did: str) -> bool:
        """Whether a DID is the host's or below it, so that nobody else can say what its keys are."""
        return did == self.host_did or did.startswith(f"{self.host_did}:")

    async def agent_of(self, did: str) -> str | None:
        """The name of the agent that a DID is of; None if it is of none here."""
        found = await self.find(did)
        return None if found is None else found.agent

    async def find(self, did: str) -> OwnAgent | None:
        """The agent that a DID is of; None if it is of none here."""
        if not self.is_of_this_host(did):
            return None
        return next((own for own in await self.dids() if own.did == did), None)

    async def named(self, agent: str) -> OwnAgent | None:
        """The agent of a name, under its own DID; None if there is none."""
        return next((own for own in await self.dids() if own.agent == agent and not own.is_default), None)

    async def default(self) -> OwnAgent | None:
        """The default agent, under the host's DID; None if no worker has registered any."""
        return next(iter(await self.dids()), None)

    async def dids(self) -> list[OwnAgent]:
        """All names under which agents are served here, the host's first; none if no worker has registered any."""
        rows = await list_agents(self._database, self._tenant)
        if not rows:
            return []
        default = OwnAgent(self.host_did, first_agent(rows).name, is_default=True)
        return [default, *(own for row in rows if (own := self._own(row)) is not None)]

    def _own(self, row: AgentRow) -> OwnAgent | None:
        try:
            return OwnAgent(self.did_of(row.name), row.name, is_default=False)
        except InvalidInput:  # a name that no URL can have is reached by no envelope
            return None
