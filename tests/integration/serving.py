"""Workers in the test's own process, whose tools and hooks write where the test can read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from perdure.activities.contracts import SANDBOXED_SESSION, SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.runtime.addresses import find_keyring
from perdure.runtime.converter import converter_for
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.message_cache import MessageCache
from perdure.uap.agent import Agent
from perdure.uap.app import App
from perdure.upp.prices import PriceTable
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.integration.stack import Stack


def agent_row(agent: Agent, queue: str) -> AgentRow:
    """How a worker of the queue registers an agent."""
    spec = agent.spec()
    kind = SANDBOXED_SESSION if spec.strategy.source else SESSION
    return AgentRow(str(agent.name), agent.id, kind, queue, converter.unstructure(spec))


@asynccontextmanager
async def serving(
    stack: Stack,
    queue: str,
    agents: Sequence[Agent],
    *,
    url: str | None = None,
    tenant: str = "default",
    prices: PriceTable | None = None,
) -> AsyncGenerator[Sessions, None]:
    """Sessions of a tenant whose agents a worker of this process serves.

    Args:
        stack: the servers.
        queue: the worker's own.
        agents: all of them.
        url: another database than the stack's.
        tenant: whose.
        prices: of models; by default nothing is known.
    """
    database = Database(url or stack.addresses.database_url, keyring=find_keyring())
    client = await connect_temporal(
        stack.addresses.temporal, "default", plugins=[perdure_plugin(converter_for(database.keyring, database))]
    )
    services = Services(
        database=database,
        announcer=Announcer(database),
        cache=MessageCache(database),
        app=App(agents=list(agents)),
        prices=prices or {},
    )
    await register_agents(database, tenant, [agent_row(one, queue) for one in agents])
    async with build_worker(client, services, WorkerOptions(task_queue=queue)):
        sessions = Sessions(client, database, tenant)
        yield sessions
        await sessions.close()
    await services.announcer.close()
    await database.close()
