"""The worker process: check, register, serve, and leave within a deadline."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from perdure.activities.contracts import SANDBOXED_SESSION, SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.config import Settings
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.migrations.schema import check_schema
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.converter import converter_for
from perdure.runtime.heap import keep_heap
from perdure.runtime.payment_sweep import PaymentSweep
from perdure.runtime.reconciler import Reconciler
from perdure.runtime.stage_index import register_stage_attribute
from perdure.runtime.sweep import Sweep
from perdure.runtime.telemetry import Telemetry, start_telemetry
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import PLACE, AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.encryption_keys import check_keys
from perdure.store.events import Announcer
from perdure.store.message_cache import MessageCache
from perdure.store.stages.definitions import register_workflows
from perdure.uap.app import App
from perdure.uap.spec import Limits
from perdure.upp.redaction import known_secrets
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from perdure.worker.deadline import leave_after
from perdure.worker.following import follower_of
from perdure.worker.registered import register_secrets
from perdure.worker.versioning import standing, versioning_of

logger = logging.getLogger(__name__)

_BEYOND_GRACE = timedelta(seconds=3)
_RETRY_SECONDS = 0.5


async def serve(app: App, settings: Settings, addresses: ServerAddresses) -> int:
    """Serve `app` until SIGTERM or SIGINT.

    A server that is away at the start is waited for, and said so; the schema must be this version's.

    Returns:
        The process's exit code.

    Raises:
        InvalidInput: the app has neither agents nor workflows, or one of its secrets has no value that can be redacted.
        SchemaOutdated: the database needs `perdure migrate`.
        KeyMissing: the database holds what this process cannot open.
    """
    if not len(app) and not app.workflows:
        raise InvalidInput("the app is empty; App(agents=[...], workflows=[...]) needs at least one of either")
    app.check_prices(settings.prices)
    register_secrets(settings, addresses.database_url, app)
    telemetry = start_telemetry("perdure-worker") if settings.otel else None
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database = Database(addresses.database_url, keyring=addresses.keyring)
    connecting = asyncio.create_task(_connect(addresses, settings, database))
    if not await _first(connecting, stop):
        return 0
    client, indexed = connecting.result()
    async with _serving(client, database, app, settings, telemetry, indexed=indexed) as worker:
        served = [*(str(agent.name) for agent in app), *(item.name for item in app.workflows)]
        keep_heap()
        _say(f"worker ready: {', '.join(served)}")
        await stop.wait()
        logger.info("worker.stopping")
        leave_after(settings.shutdown_grace + _BEYOND_GRACE)
        await worker.shutdown()
    if telemetry is not None:
        await telemetry.close()
    await database.close()
    return 0


async def _first(work: asyncio.Task[tuple[Client, bool]], stop: asyncio.Event) -> bool:
    """Wait for `work`, unless the process is told to stop first."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not work.done():
        work.cancel()
        return False
    work.result()
    return True


async def _connect(addresses: ServerAddresses, settings: Settings, database: Database) -> tuple[Client, bool]:
    """The client, and whether its namespace shows stages; once both servers are there."""
    said = ""
    while True:
        try:
            await check_schema(database)
            await check_keys(database)
            plugin = perdure_plugin(converter_for(database.keyring, database))
            client = await connect_temporal(addresses.temporal, settings.temporal_namespace, plugins=[plugin])
            return client, await register_stage_attribute(client)
        except ServerUnavailable as error:
            if str(error) != said:
                said = str(error)
                _say(f"waiting: {error}")
            await asyncio.sleep(_RETRY_SECONDS)


@asynccontextmanager
async def _serving(
    client: Client, database: Database, app: App, settings: Settings, telemetry: Telemetry | None, *, indexed: bool
) -> AsyncGenerator[Worker, None]:
    limits = Limits(continue_as_new_events=settings.continue_as_new_events)
    services = Services(
        database=database,
        announcer=Announcer(database),
        cache=MessageCache(database, limit_bytes=settings.message_cache_bytes),
        app=app,
        limits=limits,
        prices=settings.prices,
        shared=settings.limits,
        indexed=indexed,
        max_content_bytes=settings.max_content_bytes,
    )
    versioning = versioning_of(settings)
    worker = build_worker(
        client,
        services,
        WorkerOptions(
            task_queue=settings.task_queue,
            max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks,
            max_cached_workflows=settings.max_cached_workflows,
            shutdown_grace=settings.shutdown_grace,
            max_concurrent_activities=settings.max_concurrent_activities,
            max_task_queue_activities_per_second=settings.max_task_queue_activities_per_second,
            versioning=versioning,
            interceptors=_tracing(telemetry, services),
        ),
    )
    rows = [
        AgentRow(
            str(agent.name),
            agent.id,
            SANDBOXED_SESSION if agent.spec().strategy.source else SESSION,
            settings.task_queue,
            known_secrets.json(
                {**converter.unstructure(app.charged(agent.spec(limits, settings.prices))), PLACE: place}
            ),
        )
        for place, agent in enumerate(app)
    ]
    await register_agents(database, settings.tenant, rows)
    definitions = [item.definition for item in app.workflows]
    await register_workflows(database, settings.tenant, definitions, settings.task_queue)
    sweep = asyncio.create_task(Sweep(client, database, fold_after=settings.fold_after).run(), name="sweep")
    payments = asyncio.create_task(
        PaymentSweep(database, services.gates, services.announcer).run(), name="sweep of payments"
    )
    reconciler = asyncio.create_task(Reconciler(client, database).run(), name="reconciler")
    follower = follower_of(settings, client, database, services.announcer)
    following = asyncio.create_task(follower.run(), name="follow asks of agents elsewhere")
    async with worker:
        try:
            if versioning is not None:
                _say(await standing(client, versioning))
            yield worker
        finally:
            sweep.cancel()
            payments.cancel()
            reconciler.cancel()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)  # it leaves what it follows to others
            await services.announcer.close()


def _tracing(telemetry: Telemetry | None, services: Services) -> list[Interceptor]:
    """What makes spans; imported only where they are sent, for OpenTelemetry is an extra."""
    if telemetry is None:
        return []
    from perdure.worker.tracing import TracingInterceptor

    return [TracingInterceptor(telemetry, services)]


def _say(line: str) -> None:
    """Tell whoever started the worker; what it says is for people, its log is for programs."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
