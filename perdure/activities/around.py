"""`around`: one call of a run's middleware. What `before` and what `after` left is stored once, however often it is called."""

from __future__ import annotations

import asyncio

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.around_context import metadata_of, read_context, with_run
from perdure.activities.around_enter import enter_run, entered_result
from perdure.activities.around_leave import leave_run
from perdure.activities.contracts import AroundInput, AroundResult
from perdure.activities.kept_queries import keeping_queries
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.redaction import described
from perdure.activities.services import Services
from perdure.activities.told_event import read_event
from perdure.errors import DamagedSession, StrategyError
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.store.views import RunView, read_run_view, save_metadata
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.middleware import MiddlewareContext, show
from perdure.upp.json_value import JSONObject


class Around:
    """The middleware that one worker calls."""

    def __init__(self, services: Services) -> None:
        """Call the middleware of the agents in `services`."""
        self._services = services

    @activity.defn(name=contracts.AROUND)
    async def around(self, call: AroundInput) -> AroundResult:
        """Call it. What a middleware raises is part of the result: it fails the run, not the activity.

        Raises:
            UnknownAgent: this worker does not serve the agent.
        """
        async with beating(), keeping_queries(self._services, call.tenant, call.session):
            crash_point("around.begun")
            try:
                result = await self._call(writer_of(call.tenant, call.session, call.run), call)
            except asyncio.CancelledError:
                if not cancelled_by_user():
                    raise
                return AroundResult(kind="cancelled")
            crash_point("around.reporting")
            return result

    async def _call(self, writer: Writer, call: AroundInput) -> AroundResult:
        services, agent = self._services, self._services.app.agent(call.agent)
        view = await keep_trying(lambda: read_run_view(services.database, writer), deadline=STORE_PATIENCE)
        if view is None and call.kind != "enter":
            raise DamagedSession(f"session {call.session} lacks what its middleware left", run_id=call.run)
        if view is not None and call.kind == "enter":
            return entered_result(view, call.epoch)
        context = await keep_trying(lambda: read_context(services, writer, agent, call, view), deadline=STORE_PATIENCE)
        if view is None:
            return await enter_run(services, writer, agent, call, context)
        if call.kind == "tell":
            return await self._tell(writer, agent, call, view, context)
        return await leave_run(services, writer, agent, call, view, context)

    async def _tell(
        self, writer: Writer, agent: Agent, call: AroundInput, view: RunView, context: MiddlewareContext
    ) -> AroundResult:
        database = self._services.database
        event = await keep_trying(lambda: read_event(database, writer, agent.id, call, view), deadline=STORE_PATIENCE)
        error: Exception | None = None
        metadata: JSONObject = view.metadata
        try:
            await show(agent.middleware, context, event)
        except Exception as raised:  # noqa: BLE001 - it fails the run, which the workflow sees to
            error = raised
        try:
            metadata = metadata_of(context)
        except StrategyError as wrong:
            error = error or wrong
        crash_point("around.told")
        if metadata != view.metadata:
            await keep_trying(lambda: save_metadata(database, writer, metadata), deadline=STORE_PATIENCE)
        return AroundResult(error=None if error is None else described(with_run(error, call.run)))
