"""Results of tool calls: stored once, found again, and as the workflow and the event log see them."""

from __future__ import annotations

import dataclasses
import time
from typing import cast

from temporalio import activity

from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.redaction import clean_execution
from perdure.activities.services import Services
from perdure.store.answers import Writer
from perdure.store.content.contents import NewContent, keep_content
from perdure.store.database import keep_trying
from perdure.store.payloads import read_payloads
from perdure.store.tool_calls import CallState, ResultRow, claim_call, save_result
from perdure.testing.crash import crash_point
from perdure.uap.cut import cut_value
from perdure.uap.events import CONTENT_ITEMS, PRESENTED, upp_event
from perdure.uap.stage_place import place_of
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads, sha256_hex
from perdure.upp.redaction import known_secrets
from perdure.upp.stream import tool_execution_end
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_media import ToolContent


class CallResults:
    """What the store knows and learns of the tool calls of one worker."""

    def __init__(self, services: Services) -> None:
        """Use the store of `services`."""
        self._services = services

    async def look_up(self, writer: Writer, call: CallToolInput, *, claim: bool) -> CallState:
        """What is known of a call; with `claim` it is marked as running."""

        async def look() -> CallState:
            return await claim_call(
                self._services.database,
                writer,
                call.message,
                call.index,
                claim=claim,
                attempt=activity.info().attempt,
                args_sha256=call.args_sha256,
            )

        crash_point("call_tool.claiming")
        state = await keep_trying(look, deadline=STORE_PATIENCE)
        crash_point("call_tool.claimed")
        return state

    async def stored(self, writer: Writer, call: CallToolInput, state: CallState) -> CallToolResult:
        """The result of a call that is done."""
        database = self._services.database
        wanted = [state.sha256, *([state.used_sha256] if state.used_sha256 else [])]
        found = await keep_trying(lambda: read_payloads(database, writer.key, wanted), deadline=STORE_PATIENCE)
        value = loads(found[state.sha256])
        result = _result(value, state.is_error, state.duration_ms, state.attempt, state.approved)
        result = result if call.stage is None else dataclasses.replace(result, stage=place_of(value))
        return _with_arguments(result, loads(found[state.used_sha256])) if state.used_sha256 else result

    async def save(
        self, writer: Writer, call: CallToolInput, tool_call: ToolCall, execution: ToolExecution, *more: JSONValue
    ) -> CallToolResult:
        """Store what came of a call, unless something is stored already: then that is the result.

        Args:
            writer: the run.
            call: which.
            tool_call: as the model wrote it.
            execution: the record of it; its secrets are not stored.
            more: events that go along.
        """
        attempt, execution = activity.info().attempt, clean_execution(execution)
        body = dumps(execution.result)
        used = _used(call, tool_call, execution)
        row = ResultRow(
            message=call.message,
            index=call.index,
            attempt=attempt,
            is_error=execution.is_error,
            sha256=sha256_hex(body),
            body=body,
            duration_ms=execution.duration_ms,
            at=format_timestamp(now()),
            approved=execution.approved,
            used_sha256=None if used is None else sha256_hex(used),
            used=used,
        )
        if execution.content is not None:
            await self._keep(writer, execution.content)
        events = [_end_event(call, tool_call, execution, attempt), *more]
        crash_point("call_tool.storing")
        saved = await keep_trying(
            lambda: save_result(self._services.database, writer, row, events, call.pending), deadline=STORE_PATIENCE
        )
        crash_point("call_tool.stored")
        self._services.announcer.changed(writer.key, calm=True)
        if saved.kind == "stored" and saved.state is not None:
            return await self.stored(writer, call, saved.state)
        if saved.kind != "won":
            return CallToolResult(kind=saved.kind)
        self._services.cache.add_result(writer.key, row, saved.batch_sha256)
        result = _result(execution.result, execution.is_error, execution.duration_ms, attempt, execution.approved)
        result = dataclasses.replace(result, batch_sha256=saved.batch_sha256)
        result = result if call.stage is None else dataclasses.replace(result, stage=place_of(execution.result))
        return result if used is None else _with_arguments(result, execution.arguments)

    async def _keep(self, writer: Writer, content: ToolContent) -> None:
        """Store the media of a call before anybody is told of it. The ids are those of the bytes: a retry stores nothing."""
        database, made_by = self._services.database, f"run {writer.run}"
        for item in content.media:
            if item.data is None:
                continue
            new = NewContent(
                item.media_type, item.data, made_by, id=item.content_id, filename=known_secrets.json(item.filename)
            )
            crash_point("content.storing")
            await keep_trying(lambda one=new: keep_content(database, writer.key.tenant, one), deadline=STORE_PATIENCE)
            crash_point("content.stored")


def told(
    call: ToolCall, result: JSONValue, *, is_error: bool = True, approved: bool | None = None, duration_ms: int = 0
) -> ToolExecution:
    """The record of a call whose result does not come from its tool."""
    return ToolExecution(call.tool_name, call.tool_call_id, call.arguments, result, is_error, duration_ms, approved)


def _used(call: CallToolInput, tool_call: ToolCall, execution: ToolExecution) -> bytes | None:
    """The arguments that the tool was called with, if they are not the model's."""
    if execution.arguments is tool_call.arguments:
        return None
    body = dumps(execution.arguments)
    return None if sha256_hex(body) == call.args_sha256 else body


def _result(value: JSONValue, is_error: bool, duration_ms: int, attempt: int, approved: bool | None) -> CallToolResult:
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
        approved=approved,
    )


def _with_arguments(result: CallToolResult, arguments: JSONValue) -> CallToolResult:
    shown, cut = cut_value(arguments)
    preview: JSONValue = shown if cut is None else {"preview": shown}
    return dataclasses.replace(result, args_sha256=sha256_hex(dumps(arguments)), arguments=preview)


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
    data = cast(JSONObject, entry["d"])
    if cut is not None:
        data["cut"] = cut
    if execution.content is not None:
        data[CONTENT_ITEMS] = known_secrets.json(execution.content.to_json())
    if execution.content is not None and execution.content.presented:
        data[PRESENTED] = True
    return entry
