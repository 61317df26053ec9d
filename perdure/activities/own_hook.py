"""What a strategy of the user's own gives a hook, made whole from the store.

`CallUserInput.own` holds, each only if there is any: `messages` and `turn.messages` as a view names them; `turn.usage` and
`turn.cycles`; `traces` (the state's reasoning) and `reasoning`, each text {"id": row of the answer that says it} or
{"text"}; `actions` and `observations`, {"id": row of the message that holds them} or {"items"}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.activities.contracts import CallUserInput
from perdure.activities.conversation import messages_before, resolve
from perdure.activities.services import Place, Services
from perdure.store.answers import Writer
from perdure.store.executions import read_executions
from perdure.store.messages import StoredMessage
from perdure.store.run_messages import read_run_messages
from perdure.uap.hooks import Hook, HookCall
from perdure.uap.plan_steps import PlanStep
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, empty_usage


async def read_own_hook(services: Services, writer: Writer, call: CallUserInput, own: dict[str, Any]) -> HookCall:
    """The hook's call with the state, the turn and all else as the strategy has them, nothing cut."""
    reader = await _Reader.open(services, writer, call)
    progress = call.progress
    state = ExecutionState(
        step=progress.step,
        messages=await reader.messages(own.get("messages", [])),
        metadata=dict(progress.metadata),
        tool_executions=reader.executions,
        usage=TokenUsage.from_json(progress.usage) if progress.usage else empty_usage(),
        cycles=progress.cycles,
        reasoning=[reader.text(item) for item in own.get("traces", [])],
        plan=None if progress.plan is None else [PlanStep.from_json(item) for item in progress.plan],
    )
    return HookCall(
        hook=Hook(call.hook),
        step=call.step,
        state=state,
        reasoning=reader.text(own["reasoning"]) if "reasoning" in own else "",
        actions=reader.actions(own.get("actions", {})),
        observations=reader.observations(own.get("observations", {})),
        turn=await reader.turn(own["turn"]) if "turn" in own else None,
    )


class _Reader:
    """The rows of one run."""

    def __init__(self, services: Services, writer: Writer, call: CallUserInput, stored: list[StoredMessage]) -> None:
        self._services = services
        self._writer = writer
        self._call = call
        self._stored = stored
        self._rows = {item.id: item.message for item in stored}
        self.executions: list[ToolExecution] = []

    @classmethod
    async def open(cls, services: Services, writer: Writer, call: CallUserInput) -> _Reader:
        stored = await read_run_messages(
            services.database, writer.key, call.run, call.node, first=call.start, end=call.position
        )
        made = cls(services, writer, call, stored)
        made.executions = await made._executions(made._stored)
        return made

    async def _executions(self, stored: Sequence[StoredMessage]) -> list[ToolExecution]:
        return await read_executions(self._services.database, self._writer.key, self._call.run, stored)

    async def messages(self, items: Sequence[dict[str, Any]]) -> list[Message]:
        before: list[Message] = []
        if any("before" in item for item in items):
            place = Place(self._call.node, self._call.start, self._call.epoch)
            options = await self._services.options(self._writer)
            before = await messages_before(self._services, self._writer, place, options)
        return await resolve(self._services, self._writer, items, before)

    async def turn(self, told: dict[str, Any]) -> Turn:
        items: list[dict[str, Any]] = told["messages"]
        ids = [item.get("id") for item in items]
        executions = await self._executions([item for item in self._stored if item.id in ids])
        return Turn(await self.messages(items), executions, TokenUsage.from_json(told["usage"]), told["cycles"])

    def text(self, item: dict[str, Any]) -> str:
        return str(item["text"]) if "text" in item else self._rows[item["id"]].text

    def actions(self, part: dict[str, Any]) -> list[ToolCall]:
        found = self._rows.get(str(part.get("id")))
        if isinstance(found, AssistantMessage):
            return list(found.tool_calls or ())
        items: list[JSONValue] = part.get("items", [])
        return [ToolCall.from_json(item) for item in items]

    def observations(self, part: dict[str, Any]) -> list[ToolResult]:
        found = self._rows.get(str(part.get("id")))
        if isinstance(found, ToolResultMessage):
            return list(found.results)
        items: list[JSONValue] = part.get("items", [])
        return [ToolResult.from_json(item) for item in items]
