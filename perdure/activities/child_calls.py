"""A tool call that is a sub-agent's run: its result is what that run came to."""

from __future__ import annotations

import asyncio
import dataclasses

from perdure.activities.call_results import CallResults, told
from perdure.activities.children import child_outcome, refusal
from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.activities.lifeline import STORE_PATIENCE, cancelled_by_user
from perdure.activities.services import Services
from perdure.store.answers import Writer
from perdure.store.children import session_exists
from perdure.store.database import keep_trying
from perdure.testing.crash import crash_point
from perdure.uap.session_key import SessionKey
from perdure.uap.stage_call import StageCall
from perdure.upp.tool_call import ToolCall


class ChildResults:
    """The calls of sub-agents of one worker."""

    def __init__(self, services: Services, results: CallResults) -> None:
        """Read the outcomes from the store of `services`; keep them with `results`."""
        self._services = services
        self._results = results

    async def take(
        self, writer: Writer, call: CallToolInput, tool_call: ToolCall, stage: StageCall | None = None
    ) -> CallToolResult:
        """Take what a sub-agent's run came to for the result; it is short, so a cancellation does not stop it.

        Args:
            writer: the parent's run.
            call: the parent's, as its run makes it.
            tool_call: the same, as its model made it.
            stage: if the sub-agent is a stage's task.
        """
        try:
            return await self._take(writer, call, tool_call, stage)
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
        return await self._take(writer, call, tool_call, stage)

    async def _take(
        self, writer: Writer, call: CallToolInput, tool_call: ToolCall, stage: StageCall | None
    ) -> CallToolResult:
        services, key = self._services, SessionKey(call.tenant, call.child)
        outcome = await keep_trying(lambda: child_outcome(services, key, tool_call), deadline=STORE_PATIENCE)
        if outcome is None:
            return await self._without_outcome(writer, call, tool_call)
        crash_point("child_outcome.found")
        made = told(tool_call, outcome.result, is_error=outcome.is_error, duration_ms=outcome.duration_ms)
        made = made if stage is None else await stage.finish(made)
        saved = await self._results.save(writer, call, tool_call, made, outcome.event)
        return dataclasses.replace(saved, usage_by_agent=outcome.usage_by_agent)

    async def _without_outcome(self, writer: Writer, call: CallToolInput, tool_call: ToolCall) -> CallToolResult:
        """A sub-agent has not ended, or never began because it cannot."""
        known = await self._results.look_up(writer, call, claim=False)
        if known.state in ("gone", "late"):
            return CallToolResult(kind=known.state)
        if known.state == "done":
            return await self._results.stored(writer, call, known)
        if await session_exists(self._services.database, SessionKey(call.tenant, call.child)):
            return CallToolResult(kind="elsewhere")
        refused = await refusal(self._services, call, tool_call)
        if refused is None:
            return CallToolResult(kind="elsewhere")
        return await self._results.save(writer, call, tool_call, refused)
