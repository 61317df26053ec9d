"""`connect()`: the durable host. Inside it, `agent.run()` survives this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from perdure.errors import InvalidInput
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import find_addresses
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.options import RunOptions
from perdure.upp.messages import Message
from perdure.upp.turn import Turn


class DurableHost:
    """Runs agents in their workers: each `agent.run()` is a session of its own with one run."""

    def __init__(self, sessions: Sessions) -> None:
        """Submit to `sessions`."""
        self._sessions = sessions

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """See `Host.run`. The worker's agent of the same name runs; this process only waits.

        Raises:
            InvalidInput: the agent has no name.
            UnknownAgent: no worker has registered it.
        """
        if agent.name is None:
            raise InvalidInput("a durable run needs an agent with a name that a worker serves: agent(name=..., ...)")
        if history:
            options = _with_history(options, history)
        handle = await self._sessions.submit(agent.name, message, options=options)
        return await handle.result()


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
            with host.connected(DurableHost(sessions)):
                yield sessions
        finally:
            await sessions.close()
    finally:
        await database.close()
