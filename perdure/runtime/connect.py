"""`connect()`: the durable host. Inside it, what `agent.run()` and `agent.stream()` begin survives this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from perdure.errors import InvalidInput
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import find_addresses
from perdure.runtime.run_stream import RunStreams
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.app import refuse_middleware
from perdure.uap.options import RunOptions
from perdure.upp.messages import Message
from perdure.upp.turn import Turn


class DurableHost:
    """Runs agents in their workers: each `agent.run()` is a session of its own with one run."""

    def __init__(self, sessions: Sessions) -> None:
        """Submit to `sessions`."""
        self._sessions = sessions
        self._streams = RunStreams(sessions)

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """See `Host.run`. The worker's agent of the same name runs; this process only waits.

        Raises:
            InvalidInput: the agent has no name, or has middleware.
            UnknownAgent: no worker has registered it.
        """
        handle = await self._submit(agent, history, message, options)
        return await handle.result()

    def stream(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions
    ) -> AgentStreamResult:
        """See `Host.stream`. The event log is followed: nothing is lost or told twice if a worker or server restarts."""
        return self._streams.open(lambda: self._submit(agent, history, message, options), agent.id, message)

    async def close(self) -> None:
        """End what is left of the streams; runs whose readers left early are cancelled first."""
        await self._streams.close()

    async def _submit(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions
    ) -> RunHandle:
        refuse_middleware(agent)
        if agent.name is None:
            raise InvalidInput("a durable run needs an agent with a name that a worker serves: agent(name=..., ...)")
        if history:
            options = _with_history(options, history)
        return await self._sessions.submit(agent.name, message, options=options)


def _with_history(options: RunOptions, history: Sequence[Message]) -> RunOptions:
    if options.history is not None:
        raise InvalidInput("give the history to run() or in the options, not both")
    return RunOptions.from_json({**options.to_json(), "history": [message.to_json() for message in history]})


@asynccontextmanager
async def connect(
    *,
    temporal_address: str | None = None,
    database_url: str | None = None,
    namespace: str = "default",
    tenant: str = "default",
) -> AsyncGenerator[Sessions, None]:
    """Connect to both servers; inside the block, agents run durably.

    Args:
        temporal_address: host and port; by default from `PERDURE_TEMPORAL_ADDRESS` or the nearest `.perdure`.
        database_url: by default from `PERDURE_DATABASE_URL` or the nearest `.perdure`.
        namespace: of Temporal.
        tenant: whose sessions.

    Raises:
        ServerUnavailable: one of them is unknown or does not answer within 10 s.
        SchemaOutdated: the database needs `perdure migrate`.
    """
    addresses = find_addresses(temporal_address=temporal_address, database_url=database_url)
    database = Database(addresses.database_url)
    try:
        await check_schema(database)
        sessions = Sessions(await connect_temporal(addresses.temporal, namespace), database, tenant)
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
