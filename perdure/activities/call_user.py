"""`call_user`: one call of an agent's lifecycle hook, with the state as the rows have it."""

from __future__ import annotations

import asyncio
from typing import cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.border import from_description
from perdure.activities.contracts import CallUserInput, CallUserResult
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.services import Services
from perdure.errors import StrategyError
from perdure.store.answers import Writer, keep_turn
from perdure.store.database import keep_trying
from perdure.store.executions import read_executions
from perdure.store.messages import StoredMessage, read_messages
from perdure.testing.crash import crash_point
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall
from perdure.uap.ids import derive_id
from perdure.uap.plan_steps import PlanStep
from perdure.uap.run_turn import run_turn
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage

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
        async with beating():
            crash_point("call_user.begun")
            result = await self._call(writer_of(call.tenant, call.session, call.run), call)
            crash_point("call_user.reporting")
            return result

    async def _call(self, writer: Writer, call: CallUserInput) -> CallUserResult:
        agent = self._services.app.agent(call.agent)
        run = await self._read(writer, call)
        try:
            outcome = await call_hook(agent.strategy, run.hook_call(call))
            crash_point("call_user.called")
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
            return CallUserResult(metadata=call.progress.metadata)
        if outcome.turn is None:
            return CallUserResult(metadata=outcome.metadata, stop=outcome.stop)
        added = await self._save_turn(writer, call, outcome.turn, run)
        return CallUserResult(metadata=outcome.metadata, turned=True, added=added)

    async def _read(self, writer: Writer, call: CallUserInput) -> _Run:
        database = self._services.database

        async def read() -> _Run:
            stored = await read_messages(
                database, writer.key, call.node, first=call.start, end=call.position, discarded=True
            )
            own = [item for item in stored if item.run == call.run]
            return _Run(own, await read_executions(database, writer.key, call.run, own), call)

        return await keep_trying(read, deadline=STORE_PATIENCE)

    async def _save_turn(self, writer: Writer, call: CallUserInput, turn: Turn, run: _Run) -> int:
        """Make the turn the run's; returns how many rows were added to the run's node."""
        keep, new = run.split(turn)
        bodies = [dumps(message.to_json()) for message in new]
        rows = [_row(call, place, message, bodies[place]) for place, message in enumerate(new)]
        at = format_timestamp(now())

        async def keep_it() -> int | None:
            return await keep_turn(
                self._services.database, writer, call.node, at=at, settle=_SETTLE, keep=keep, rows=rows, bodies=bodies
            )

        end = await keep_trying(keep_it, deadline=STORE_PATIENCE)
        self._services.announcer.changed(writer.key)
        return 0 if end is None else end - call.position


class _Run:
    """A run as far as it has come."""

    def __init__(self, stored: list[StoredMessage], executions: list[ToolExecution], call: CallUserInput) -> None:
        self._stored = stored
        self._executions = executions
        texts = {item.id: item.message.text for item in stored}
        progress = call.progress
        self.state = ExecutionState(
            step=progress.step,
            messages=[item.message for item in stored],
            metadata=dict(progress.metadata),
            tool_executions=executions,
            usage=TokenUsage.from_json(progress.usage) if progress.usage else empty_usage(),
            cycles=progress.cycles,
            done=progress.done,
            reasoning=[texts.get(ident, "") for ident in progress.reasoning],
            plan=None if progress.plan is None else [PlanStep.from_json(item) for item in progress.plan],
        )

    def hook_call(self, call: CallUserInput) -> HookCall:
        """What the hook is given."""
        hook = Hook(call.hook)
        by_id = {item.id: item.message for item in self._stored}
        answer, results, own = (by_id.get(ident) for ident in (call.message, call.results, call.scaffold))
        return HookCall(
            hook=hook,
            step=call.step,
            state=self.state,
            reasoning=own.text if own is not None else "",
            actions=list(answer.tool_calls or ()) if isinstance(answer, AssistantMessage) else (),
            observations=list(results.results) if isinstance(results, ToolResultMessage) else (),
            turn=self._turn(call, hook),
            error=None if call.error is None else from_description(cast(JSONObject, call.error)),
        )

    def split(self, turn: Turn) -> tuple[list[str], list[Message]]:
        """Row ids of the run's messages that are in a turn, and the messages of the turn that are new.

        Raises:
            StrategyError: new ones come before those of the run.
        """
        rows = {item.message.id: item.id for item in self._stored}
        known = [message.id in rows for message in turn.messages]
        if known != sorted(known, reverse=True):
            raise StrategyError("on_error returned a turn whose new messages do not come after those of the run")
        new = [message for message in turn.messages if message.id not in rows]
        return [rows[message.id] for message in turn.messages if message.id in rows], new

    def _turn(self, call: CallUserInput, hook: Hook) -> Turn | None:
        if hook is Hook.STEP_END:
            stored = [item for item in self._stored if item.position >= call.step_position]
            return self._turn_of(stored, sum(isinstance(item.message, AssistantMessage) for item in stored))
        return self._turn_of(self._stored, call.progress.cycles) if hook is Hook.COMPLETE else None

    def _turn_of(self, stored: list[StoredMessage], cycles: int) -> Turn:
        used = [TokenUsage.from_json(item.usage) for item in stored if item.usage]
        messages = [item.message for item in stored if not item.discarded]
        ids = {call.tool_call_id for message in messages for call in _calls(message)}
        executions = [item for item in self._executions if item.tool_call_id in ids]
        return run_turn(messages, executions, aggregate_usage(used), cycles)


def _calls(message: Message) -> list[ToolCall]:
    return list(message.tool_calls or ()) if isinstance(message, AssistantMessage) else []


def _row(call: CallUserInput, place: int, message: Message, body: bytes) -> JSONObject:
    if isinstance(message, ToolResultMessage) or (isinstance(message, AssistantMessage) and message.has_tool_calls):
        raise StrategyError("on_error returned a turn with tool calls or results that its run never had")
    return {
        "id": derive_id(call.run, "turned", place),
        "step": call.step,
        "type": str(message.type),
        "sha256": sha256_hex(body),
    }
