"""`call_tool`: one tool call, run no more often than its effect class allows. A tool's error is a result for the model."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from datetime import timedelta
from typing import cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.children import child_outcome, refusal
from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.services import Services
from perdure.errors import DamagedSession
from perdure.store.answers import Writer
from perdure.store.children import session_exists
from perdure.store.database import keep_trying
from perdure.store.payloads import read_payloads
from perdure.store.tool_calls import CallState, ResultRow, claim_call, save_result
from perdure.testing.crash import crash_point
from perdure.uap.cut import cut_value
from perdure.uap.events import upp_event
from perdure.uap.ids import tool_call_key
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads, sha256_hex
from perdure.upp.stream import tool_execution_end
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tools import Tool, ToolContext

CANCELLED = "The run was cancelled while this tool was running; whether it had its effect is not known."
UNKNOWN = (
    "The outcome of this call is not known: the process that ran it ended before it could say. "
    "It was not run again. Check whether it had its effect before you repeat it."
)


class CallTool:
    """The tool calls of one worker."""

    def __init__(self, services: Services) -> None:
        """Call the tools of the agents in `services`."""
        self._services = services

    @activity.defn(name=contracts.CALL_TOOL)
    async def call_tool(self, call: CallToolInput) -> CallToolResult:
        """Run one tool call, or find what came of it.

        Raises:
            DamagedSession: the stored arguments are not those that the workflow saw.
        """
        async with beating():
            crash_point("call_tool.begun")
            result = await self._call(writer_of(call.tenant, call.session, call.run), call)
            crash_point("call_tool.reporting")
            return result

    async def _call(self, writer: Writer, call: CallToolInput) -> CallToolResult:
        attempt = activity.info().attempt
        if not self._services.app.serves(call.agent):
            return CallToolResult(kind="elsewhere")
        tool_call = await self._read_call(writer, call)
        if call.child:
            return await self._call_child(writer, call, tool_call)
        if attempt > 1 or call.adopted or call.effect in ("once", "client"):
            known = await self._look_up(writer, call, attempt)
            if known.state in ("gone", "late"):
                return CallToolResult(kind=known.state)
            if known.state == "done":
                return await self._stored_result(writer, known)
            decided = _decide(call, known, may_have_run=attempt > 1 or call.adopted)
            if isinstance(decided, CallToolResult):
                return decided
            if decided is not None:
                answer, is_error = decided
                return await self._save(writer, call, tool_call, _told(tool_call, answer, is_error))
        try:
            crash_point("call_tool.running")
            execution = await self._execute(call, tool_call, attempt)
            crash_point("call_tool.ran")
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
            execution = _told(tool_call, CANCELLED, True)
        return await self._save(writer, call, tool_call, execution)

    async def _call_child(self, writer: Writer, call: CallToolInput, tool_call: ToolCall) -> CallToolResult:
        """Take what a sub-agent's run came to for the result; it is short, so a cancellation does not stop it."""
        try:
            return await self._take_child(writer, call, tool_call)
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
        return await self._take_child(writer, call, tool_call)

    async def _take_child(self, writer: Writer, call: CallToolInput, tool_call: ToolCall) -> CallToolResult:
        services, key = self._services, SessionKey(call.tenant, call.child)
        outcome = await keep_trying(lambda: child_outcome(services, key, tool_call), deadline=STORE_PATIENCE)
        if outcome is None:
            return await self._without_outcome(writer, call, tool_call)
        crash_point("child_outcome.found")
        told = dataclasses.replace(_told(tool_call, outcome.result, outcome.is_error), duration_ms=outcome.duration_ms)
        saved = await self._save(writer, call, tool_call, told, outcome.event)
        return dataclasses.replace(saved, usage_by_agent=outcome.usage_by_agent)

    async def _without_outcome(self, writer: Writer, call: CallToolInput, tool_call: ToolCall) -> CallToolResult:
        """A sub-agent has not ended, or never began because it cannot."""
        known = await self._look_up(writer, call, activity.info().attempt)
        if known.state in ("gone", "late"):
            return CallToolResult(kind=known.state)
        if known.state == "done":
            return await self._stored_result(writer, known)
        if await session_exists(self._services.database, SessionKey(call.tenant, call.child)):
            return CallToolResult(kind="elsewhere")
        refused = await refusal(self._services, call.agent, tool_call)
        if refused is None:
            return CallToolResult(kind="elsewhere")
        return await self._save(writer, call, tool_call, refused)

    async def _read_call(self, writer: Writer, call: CallToolInput) -> ToolCall:
        services = self._services
        answer = await keep_trying(lambda: services.answer(writer.key, call.message), deadline=STORE_PATIENCE)
        found = (answer.tool_calls or [])[call.index]
        if sha256_hex(dumps(found.arguments)) != call.args_sha256:
            raise DamagedSession(f"the arguments of call {call.index} of message {call.message} have changed")
        return found

    async def _look_up(self, writer: Writer, call: CallToolInput, attempt: int) -> CallState:
        async def look() -> CallState:
            claim = call.effect == "once"
            return await claim_call(
                self._services.database, writer, call.message, call.index, claim=claim, attempt=attempt
            )

        crash_point("call_tool.claiming")
        state = await keep_trying(look, deadline=STORE_PATIENCE)
        crash_point("call_tool.claimed")
        return state

    async def _execute(self, call: CallToolInput, tool_call: ToolCall, attempt: int) -> ToolExecution:
        agent = self._services.app.agent(call.agent)
        tool = agent.tool(tool_call.tool_name)
        context = ToolContext(
            call_id=tool_call.tool_call_id,
            idempotency_key=tool_call_key(call.message, call.index),
            attempt=attempt,
        )
        return await execute_tool(_limited(tool, call.timeout_s), tool_call, context, agent.tool_strategy)

    async def _stored_result(self, writer: Writer, state: CallState) -> CallToolResult:
        database = self._services.database
        found = await keep_trying(lambda: read_payloads(database, writer.key, [state.sha256]), deadline=STORE_PATIENCE)
        return _result(loads(found[state.sha256]), state.is_error, state.duration_ms, state.attempt)

    async def _save(
        self, writer: Writer, call: CallToolInput, tool_call: ToolCall, execution: ToolExecution, *more: JSONValue
    ) -> CallToolResult:
        attempt = activity.info().attempt
        body = dumps(execution.result)
        row = ResultRow(
            message=call.message,
            index=call.index,
            attempt=attempt,
            is_error=execution.is_error,
            sha256=sha256_hex(body),
            body=body,
            duration_ms=execution.duration_ms,
            at=format_timestamp(now()),
        )
        events = [_end_event(call, tool_call, execution, attempt), *more]
        crash_point("call_tool.storing")
        saved = await keep_trying(
            lambda: save_result(self._services.database, writer, row, events, call.pending), deadline=STORE_PATIENCE
        )
        crash_point("call_tool.stored")
        self._services.announcer.changed(writer.key)
        if saved.kind == "stored" and saved.state is not None:
            return await self._stored_result(writer, saved.state)
        if saved.kind != "won":
            return CallToolResult(kind=saved.kind)
        result = _result(execution.result, execution.is_error, execution.duration_ms, attempt)
        return dataclasses.replace(result, batch_sha256=saved.batch_sha256)


def _decide(
    call: CallToolInput, known: CallState, *, may_have_run: bool
) -> CallToolResult | tuple[JSONValue, bool] | None:
    """What to do with a call that has no result: wait for somebody, tell the model something, or run it (None)."""
    answer = known.answer
    if call.effect == "client":
        if answer is None:
            return CallToolResult(kind="parked", wait=contracts.CLIENT_TOOL)
        return answer.get("result"), bool(answer.get("isError"))
    if call.effect == "once":
        if known.state == "pending":  # marked running only now, so it has not been run
            return None
        if answer is None:
            return CallToolResult(kind="parked", wait=contracts.OUTCOME)
        return _settled(answer)
    if call.effect == "at_most_once" and may_have_run:
        return UNKNOWN, True
    return None


def _settled(answer: JSONObject) -> tuple[JSONValue, bool] | None:
    outcome = answer.get("outcome")
    if outcome == "not_run":
        return None
    if outcome == "happened":
        return answer.get("result"), bool(answer.get("isError"))
    return UNKNOWN, True


def _told(call: ToolCall, result: JSONValue, is_error: bool) -> ToolExecution:
    return ToolExecution(call.tool_name, call.tool_call_id, call.arguments, result, is_error, 0)


def _limited(tool: Tool | None, timeout_s: float) -> Tool | None:
    if tool is None or tool.timeout is not None:
        return tool
    return dataclasses.replace(tool, timeout=timedelta(seconds=timeout_s))


def _result(value: JSONValue, is_error: bool, duration_ms: int, attempt: int) -> CallToolResult:
    raw = dumps(value)
    shown, cut = cut_value(value)
    return CallToolResult(
        is_error=is_error,
        result=shown,
        sha256=sha256_hex(raw),
        size=len(raw),
        cut=cut is not None,
        duration_ms=duration_ms,
        attempt=attempt,
    )


def _end_event(call: CallToolInput, tool_call: ToolCall, execution: ToolExecution, attempt: int) -> JSONValue:
    shown, cut = cut_value(execution.result)
    event = tool_execution_end(
        tool_call.tool_call_id,
        tool_call.tool_name,
        shown,
        execution.is_error,
        int(time.time() * 1000),
        call.index,
    )
    entry = upp_event(event, step=call.step, attempt=attempt, message=call.message)
    if cut is not None:
        cast(JSONObject, entry["d"])["cut"] = cut
    return entry
