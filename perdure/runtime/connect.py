"""`connect()`: the durable host. Inside it, what `agent.run()` and `agent.stream()` begin survives this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from perdure.errors import InvalidInput, RunCancelled, RunError
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import find_addresses
from perdure.runtime.durable_session import DurableSession
from perdure.runtime.known_threads import KnownThread, KnownThreads
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.run_stream import RunStreams
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.store.encryption_keys import check_keys
from perdure.store.keyring import Keyring
from perdure.store.session_news import read_next_ordinal
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.options import RunOptions
from perdure.uap.session_document import SessionDocument
from perdure.uap.session_key import SessionKey
from perdure.uap.session_options import SessionOptions
from perdure.upp.errors import UPPError
from perdure.upp.messages import Message
from perdure.upp.turn import Turn


class DurableHost:
    """Runs agents in their workers: each `agent.run()` is a session of its own, or goes on with one that holds its history."""

    def __init__(self, sessions: Sessions) -> None:
        """Submit to `sessions`."""
        self._sessions = sessions
        self._streams = RunStreams(sessions)
        self._threads = KnownThreads()

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """See `Host.run`. The worker's agent of the same name runs; this process only waits.

        Raises:
            InvalidInput: the agent has no name.
            UnknownAgent: no worker has registered it.
        """
        handle = await self._submit(agent, history, message, options)
        try:
            turn = await handle.result()
        except RunCancelled:
            raise
        except (RunError, UPPError):  # the session holds the history still
            self._keep(agent, history, handle)
            raise
        await self._ended(agent, history, handle, turn)
        return turn

    def stream(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions,
        *, sub_agents: bool = False,
    ) -> AgentStreamResult:  # fmt: skip
        """See `Host.stream`. The event log is followed: nothing is lost or told twice if a worker or server restarts."""
        if agent.custom is not None:
            options = replace(options, stream=True)
        return self._streams.open(
            lambda: self._submit(agent, history, message, options), agent.id, message, sub_agents=sub_agents,
            ended=lambda handle, turn: self._ended(agent, history, handle, turn),
            failed=lambda handle: self._keep(agent, history, handle),
        )  # fmt: skip

    def open_session(
        self, agent: Agent, options: SessionOptions, document: SessionDocument | None = None
    ) -> DurableSession:
        """See `SessionHost.open_session`. Nothing is read or stored before the first call that is awaited.

        Raises:
            InvalidInput: the agent has no name.
        """
        return DurableSession(self._sessions, self._streams, agent, options, document)

    async def close(self) -> None:
        """End what is left of the streams; runs whose readers left early are cancelled first."""
        await self._streams.close()

    async def _submit(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions
    ) -> RunHandle:
        if agent.name is None:
            raise InvalidInput("a durable run needs an agent with a name that a worker serves: agent(name=..., ...)")
        if not history:
            return await self._sessions.submit(agent.name, message, options=options)
        if options.history is not None:
            raise InvalidInput("give the history to run() or in the options, not both")
        known = self._threads.take(agent.name, history)
        if known is not None and await self._holds(known):
            return await self._sessions.submit(agent.name, message, session=known.session, options=options)
        return await self._sessions.submit(agent.name, message, history=history, options=options)

    async def _holds(self, known: KnownThread) -> bool:
        """Whether the session has taken no other input since, which anyone who knows its id may hand in."""
        key = SessionKey(self._sessions.tenant, known.session)
        return await read_next_ordinal(self._sessions.database, key) == known.ordinal + 1

    async def _ended(self, agent: Agent, history: Sequence[Message], handle: RunHandle, turn: Turn) -> None:
        """Note where the history goes on; not if middleware gave another turn than the session's thread has."""
        if (await handle.status()).turn_sha is None:
            self._keep(agent, [*history, *turn.messages], handle)

    def _keep(self, agent: Agent, messages: Sequence[Message], handle: RunHandle) -> None:
        known = KnownThread(handle.session, handle.accepted.ordinal)
        self._threads.keep(str(agent.name), messages, known)


@asynccontextmanager
async def connect(
    *,
    temporal_address: str | None = None,
    database_url: str | None = None,
    namespace: str = "default",
    tenant: str = "default",
    keyring: Keyring | None = None,
) -> AsyncGenerator[Sessions, None]:
    """Connect to both servers; inside the block, agents run durably.

    Args:
        temporal_address: host and port; by default from `PERDURE_TEMPORAL_ADDRESS` or the nearest `.perdure`.
        database_url: by default from `PERDURE_DATABASE_URL` or the nearest `.perdure`.
        namespace: of Temporal.
        tenant: whose sessions.
        keyring: of what is sealed; by default from `PERDURE_ENCRYPTION_KEYS`.

    Raises:
        KeyMissing: the database holds what none of the keys opens.
        ServerUnavailable: one of them is unknown or does not answer within 10 s.
        SchemaOutdated: the database needs `perdure migrate`.
    """
    addresses = find_addresses(temporal_address=temporal_address, database_url=database_url, keyring=keyring)
    database = Database(addresses.database_url, keyring=addresses.keyring)
    try:
        await check_schema(database)
        await check_keys(database)
        client = await connect_temporal(addresses.temporal, namespace, database=database)
        sessions = Sessions(client, database, tenant)
        try:
            durable = DurableHost(sessions)
            try:
                with host.connected(durable):
                    yield sessions
            finally:
                await durable.close()
        finally:
            await sessions.close()
    finally:
        await database.close()
