"""What the parts of the UAMP door share: one for each process."""

from __future__ import annotations

import time
from dataclasses import dataclass

from perdure.api.authentication import Authenticator
from perdure.api.backend import Backend
from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused
from perdure.api.rate_limit import RateLimit
from perdure.api.requirement import check_scope
from perdure.errors import UnknownAgent
from perdure.protocols.uamp_events.capabilities import AudioCapabilities, Capabilities
from perdure.protocols.uamp_events.connection import Connection
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.runtime.agent_capabilities import capabilities_of
from perdure.runtime.sessions import Sessions
from perdure.store.agents import AgentRow, find_agent, first_agent
from perdure.store.database import Database
from perdure.store.pages import list_agents
from perdure.uap.ids import new_id
from perdure.uap.voice import VoiceFormats
from perdure.upp.json_value import JSONObject

_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Services:
    """The process's servers, and who may use them.

    Attributes:
        backend: the servers.
        authenticator: knows callers.
        rate: of each caller; None for none.
        forwards_thinking: whether what sub-agents think is told.
    """

    backend: Backend
    authenticator: Authenticator
    rate: RateLimit | None
    forwards_thinking: bool

    @property
    def database(self) -> Database:
        """The store."""
        return self.backend.database

    def sessions(self, tenant: str) -> Sessions:
        """A tenant's sessions."""
        return self.backend.sessions(tenant)

    def connection(self) -> Connection:
        """A client's connection, without sessions."""
        return Connection(draw_id=new_id, now_ms=now_ms, voice=self.backend.voice is not None)

    async def caller_of(self, token: str | None, known: Principal | None) -> Principal:
        """Who opens or uses a session.

        Args:
            token: what the client sent in an event.
            known: who its connection or request is known to be.

        Raises:
            EventRefused: nobody who may: `unauthorized`.
        """
        if token is None and known is None:
            raise EventRefused(
                Code.UNAUTHORIZED, "show an API key or a token: as 'token', or in the header Authorization"
            )
        try:
            principal = known if token is None else await self.authenticator.principal_of(token)
            assert principal is not None
            check_scope(principal, Scope.RUN)
        except Refused as refusal:
            details: JSONObject | None = {"scope": Scope.RUN.value} if refusal.status == _FORBIDDEN else None
            raise EventRefused(Code.UNAUTHORIZED, refusal.detail, details=details) from refusal
        return principal

    async def agent(self, tenant: str, name: str | None) -> AgentRow:
        """The agent of a name; without one the default one.

        Raises:
            UnknownAgent: there is none.
        """
        if name is not None:
            return await find_agent(self.database, tenant, name)
        rows = await list_agents(self.database, tenant)
        if not rows:
            raise UnknownAgent("no agent is registered; start one with `perdure worker MODULE:APP`")
        return first_agent(rows)

    async def capabilities(self, tenant: str, name: str | None) -> Capabilities:
        """What an agent can do. Raises UnknownAgent."""
        return self.capabilities_of(await self.agent(tenant, name))

    def capabilities_of(self, agent: AgentRow) -> Capabilities:
        """What an agent can do here."""
        voice = self.backend.voice
        return capabilities_of(agent, voice=None if voice is None else _audio(voice.formats))


def now_ms() -> int:
    """The time, milliseconds since the epoch."""
    return int(time.time() * 1000)


def _audio(formats: VoiceFormats) -> AudioCapabilities:
    return AudioCapabilities(
        input_formats=[*formats.input_formats],
        output_formats=[*formats.output_formats],
        sample_rates=[*formats.sample_rates] or None,
        voices=[*formats.voices] or None,
        supports_realtime=True,
    )
