"""Sub-agents in activities: a session opened from its parent's tool call, and its run's outcome as that call's result."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

from perdure.activities.agent_stages import called_name
from perdure.activities.border import from_description
from perdure.activities.contracts import BeginRunInput, CallToolInput, ParentLink
from perdure.activities.said_before import said_before
from perdure.activities.services import Services
from perdure.errors import DamagedSession, InvalidInput, UnknownAgent
from perdure.store.children import Opening, find_child_run, open_session, started_data
from perdure.store.completed_turns import completed_turn
from perdure.store.runs import TERMINAL, RunRow
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.agent_tool import AgentTool, result_of, task_of
from perdure.uap.attachments import attached, task_message
from perdure.uap.delegate import ATTACHMENTS
from perdure.uap.delegated import delegated_agent
from perdure.uap.events import run_event
from perdure.uap.inheritance import check_level, deepest
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.uap.stage_call import check_arguments
from perdure.uap.stage_place import is_own
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import UserMessage
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import error_text, execute_tool
from perdure.upp.tools import Tool, ToolContext

CANCELLED = "The sub-agent was cancelled before it had an answer."
_NO_CONTEXT = ToolContext(call_id="", idempotency_key="", attempt=1)


@dataclass(frozen=True, slots=True)
class AskedBy:
    """Where the tool call stands that asks a sub-agent: in the message of that row id, of this session's run."""

    key: SessionKey
    run: str
    message: str


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """What a sub-agent's run came to, as its parent is told.

    Attributes:
        result: for the parent's model.
        is_error: it failed or was cancelled.
        duration_ms: from its first moment to its last.
        usage_by_agent: TokenUsage JSON of it and its own sub-agents, by agent path.
        event: `child.ended` for the parent's log.
    """

    result: JSONValue
    is_error: bool
    duration_ms: int
    usage_by_agent: dict[str, dict[str, Any]]
    event: JSONObject


async def prepare(services: Services, path: str, tool_call: ToolCall, asked: AskedBy) -> tuple[Agent, UserMessage]:
    """The sub-agent that a tool call asks, with what it inherits, and its task.

    Args:
        services: of this worker.
        path: of the sub-agent: its parent's, and how its parent's spec names the tool.
        tool_call: the parent's.
        asked: where that stands.

    Raises:
        UPPError: INVALID_REQUEST if the sub-agent is nested too deeply, or cannot be used with what it inherits.
        InvalidInput: the call has no task, its arguments do not fit a stage's task, or it attaches what its conversation
            does not have.
        UnknownAgent: the parent has no such sub-agent.
    """
    agent, _, name = path.rpartition("/")
    tool = services.app.agent(agent).tool(name)
    if not isinstance(tool, AgentTool):
        raise UnknownAgent(f"agent {agent!r} has no sub-agent {name!r}")
    _check_depth(services, path.split("/"))
    child = services.app.agent(path)
    if not isinstance(tool_call.arguments, dict):
        raise InvalidInput(f"the arguments of sub-agent {tool_call.tool_name!r} must be a JSON object")
    if not is_own(name):
        check_arguments(tool, tool_call.arguments)
    task = task_of(tool, tool_call.arguments)
    if name != delegated_agent(tool_call):
        return child, UserMessage(task)
    ids = tool_call.arguments.get(ATTACHMENTS)
    said = await said_before(services, asked.key, asked.run, asked.message) if ids else []
    return child, task_message(task, ids, await attached(said, ids, services.contents(asked.key.tenant)))


def _check_depth(services: Services, names: list[str]) -> None:
    limit: int | None = None
    for depth in range(len(names) - 1):
        limit = deepest(services.app.agent("/".join(names[: depth + 1])), depth, limit)
    check_level(tuple(names), limit or 0)


async def refusal(services: Services, call: CallToolInput, tool_call: ToolCall) -> ToolExecution | None:
    """What the parent's model is told of a call that no sub-agent can take, worded as in process; None if one can.

    Args:
        services: of this worker.
        call: the parent's, as its run makes it; it may say itself why none is to be begun.
        tool_call: the same, as its model made it.
    """
    agent = call.agent
    name = _name_of(services, call, tool_call)
    tool = services.app.agent(agent).tool(name)
    if not isinstance(tool, AgentTool):
        return await execute_tool(None, tool_call, _NO_CONTEXT)

    async def attempt(_: JSONObject) -> None:
        if call.refused is not None:
            raise from_description(cast(JSONObject, call.refused))
        asked = AskedBy(SessionKey(call.tenant, call.session), call.run, call.message)
        await prepare(services, f"{agent}/{name}", tool_call, asked)

    tried = Tool(tool.name, tool.description, tool.parameters, run=attempt)
    execution = await execute_tool(tried, tool_call, _NO_CONTEXT)
    return dataclasses.replace(execution, duration_ms=0) if execution.is_error else None


def _name_of(services: Services, call: CallToolInput, tool_call: ToolCall) -> str:
    """How the parent's spec names the sub-agent that a call asks."""
    named = delegated_agent(tool_call) if call.stage is None else None
    if named is not None and isinstance(services.app.agent(call.agent).tool(named), AgentTool):
        return named
    return called_name(call, tool_call.tool_name)


async def open_child(services: Services, call: BeginRunInput, link: ParentLink) -> None:
    """Open a sub-agent's session from the tool call that asks for it; one that is open already stays as it is.

    Nothing is opened if the parent's run is not active any more.

    Raises:
        PerdureError: what `prepare` raises.
        DamagedSession: the tool call is not stored.
    """
    parent = SessionKey(call.tenant, link.session)
    answer = await services.answer(parent, link.message)
    calls = answer.tool_calls or []
    if link.index >= len(calls):
        raise DamagedSession(f"message {link.message} of session {parent.session} has no tool call {link.index}")
    tool_call = calls[link.index]
    agent, task = await prepare(services, call.agent, tool_call, AskedBy(parent, link.run, link.message))
    crash_point("open_child.storing")
    opened = await open_session(
        services.database,
        Opening(
            key=SessionKey(call.tenant, call.session),
            agent=call.agent,
            agent_id=agent.id,
            parent=link.session,
            run=link.run,
            message=link.message,
            index=link.index,
            call=tool_call.tool_call_id,
            task=task,
            options=RunOptions.from_json(cast(JSONObject, link.options)),
        ),
    )
    crash_point("open_child.stored")
    if opened:
        services.announcer.changed(parent)


async def child_outcome(services: Services, key: SessionKey, tool_call: ToolCall) -> ChildOutcome | None:
    """What a sub-agent's run came to; None if it has not ended.

    Args:
        services: of this worker.
        key: the sub-agent's session.
        tool_call: of the parent.
    """
    child = await find_child_run(services.database, key)
    if child is None or child.row.status not in TERMINAL:
        return None
    row = child.row
    result, is_error = await _result(services, row, child.agent)
    took = (row.ended_at - row.started_at).total_seconds() if row.ended_at and row.started_at else 0.0
    data = started_data(key.session, child.agent, tool_call.tool_call_id)
    return ChildOutcome(
        result=result,
        is_error=is_error,
        duration_ms=max(0, round(took * 1000)),
        usage_by_agent=child.usage_by_agent,
        event=run_event("child.ended", {**data, "status": row.status}),
    )


async def _result(services: Services, row: RunRow, agent: str) -> tuple[JSONValue, bool]:
    if row.status == "cancelled":
        return CANCELLED, True
    if row.status == "failed":
        return error_text(from_description(row.error or {})), True
    return result_of(services.app.agent(agent), await completed_turn(services.database, row)), False
