"""`call_user`: one call of an agent's lifecycle hook, with the state as the rows have it."""

from __future__ import annotations

import asyncio
from typing import cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.border import from_description
from perdure.activities.contracts import CallUserInput, CallUserResult
from perdure.activities.kept_queries import keeping_queries
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.own_hook import read_own_hook
from perdure.activities.redaction import clean_turn
from perdure.activities.services import Services
from perdure.activities.stored_run import StoredRun, read_stored_run, turned_rows
from perdure.store.answers import Writer, keep_turn
from perdure.store.database import keep_trying
from perdure.testing.crash import crash_point
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall
from perdure.uap.middleware import holds_deltas
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.turn import Turn

_SETTLE = dumps("This tool was not run: the run failed before, and its agent went on without it.")


class CallUser:
    """The hooks that one worker calls."""

    def __init__(self, services: Services) -> None:
        """Call the hooks of the agents in `services`."""
        self._services = services

    @activity.defn(name=contracts.CALL_USER)
    async def call_user(self, call: CallUserInput) -> CallUserResult:
        """Call one hook.

        Raises:
            UnknownAgent: this worker does not serve the agent.
            Exception: what the hook raised.
        """
        async with beating(), keeping_queries(self._services, call.tenant, call.session):
            crash_point("call_user.begun")
            result = await self._call(writer_of(call.tenant, call.session, call.run), call)
            crash_point("call_user.reporting")
            return result

    async def _call(self, writer: Writer, call: CallUserInput) -> CallUserResult:
        agent = self._services.app.agent(call.agent)
        run = await self._read(writer, call)
        hook_call = await self._hook_call(writer, call, run)
        try:
            outcome = await call_hook(agent.strategy, hook_call)
            crash_point("call_user.called")
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
            return CallUserResult(metadata=call.progress.metadata)
        if outcome.turn is None:
            return CallUserResult(metadata=outcome.metadata, stop=outcome.stop)
        added = await self._save_turn(
            writer, call, clean_turn(outcome.turn), run, hidden=holds_deltas(agent.middleware)
        )
        return CallUserResult(metadata=outcome.metadata, turned=True, added=added)

    async def _hook_call(self, writer: Writer, call: CallUserInput, run: StoredRun) -> HookCall:
        own = call.own
        if own is None:
            return _hook_call(run, call)
        return await keep_trying(lambda: read_own_hook(self._services, writer, call, own), deadline=STORE_PATIENCE)

    async def _read(self, writer: Writer, call: CallUserInput) -> StoredRun:
        database = self._services.database

        async def read() -> StoredRun:
            return await read_stored_run(
                database, writer, call.node, start=call.start, end=call.position, progress=call.progress
            )

        return await keep_trying(read, deadline=STORE_PATIENCE)

    async def _save_turn(self, writer: Writer, call: CallUserInput, turn: Turn, run: StoredRun, *, hidden: bool) -> int:
        """Make the turn the run's; returns how many rows were added to the run's node."""
        kept, new = run.split(turn)
        keep = [item.id for item in kept]
        rows, bodies = turned_rows(call.run, call.step, "turned", new)
        at = format_timestamp(now())

        async def keep_it() -> int | None:
            return await keep_turn(
                self._services.database, writer, call.node,
                at=at, settle=_SETTLE, keep=keep, rows=rows, bodies=bodies, hidden=hidden,
            )  # fmt: skip

        end = await keep_trying(keep_it, deadline=STORE_PATIENCE)
        self._services.announcer.changed(writer.key)
        return 0 if end is None else end - call.position


def _hook_call(run: StoredRun, call: CallUserInput) -> HookCall:
    """What the hook is given."""
    hook = Hook(call.hook)
    by_id = {item.id: item.message for item in run.stored}
    answer, results, own = (by_id.get(ident) for ident in (call.message, call.results, call.scaffold))
    return HookCall(
        hook=hook,
        step=call.step,
        state=run.state,
        reasoning=own.text if own is not None else "",
        actions=list(answer.tool_calls or ()) if isinstance(answer, AssistantMessage) else (),
        observations=list(results.results) if isinstance(results, ToolResultMessage) else (),
        turn=_turn(run, call, hook),
        error=None if call.error is None else from_description(cast(JSONObject, call.error)),
    )


def _turn(run: StoredRun, call: CallUserInput, hook: Hook) -> Turn | None:
    if hook is Hook.STEP_END:
        cycles = sum(
            item.position >= call.step_position and isinstance(item.message, AssistantMessage) for item in run.stored
        )
        return run.turn(cycles, first=call.step_position)
    return run.turn(call.progress.cycles) if hook is Hook.COMPLETE else None
