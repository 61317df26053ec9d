"""From a request to the part of a run that answers it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from perdure.api.access import Caller
from perdure.api.doors.openai.completion import Part
from perdure.api.doors.openai.media import read_messages
from perdure.api.doors.openai.results import hand_over, let_go
from perdure.api.payments import with_payment
from perdure.errors import PaymentNeeded
from perdure.protocols.openai_chat.conversation import ChatTurn, chat_options, chat_turn
from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.openai_chat.model_params import ModelKind
from perdure.protocols.openai_chat.request import ChatRequest
from perdure.protocols.uamp_events.conversation import Clock
from perdure.runtime.run_handle import RunHandle
from perdure.store.agents import AgentRow, find_agent
from perdure.store.runs import read_options
from perdure.uap.ids import new_id
from perdure.uap.options import RunOptions
from perdure.uap.payments import Refusal, SubmittedPayment, ways_to_pay
from perdure.uap.spec import runs_alone
from perdure.upp.messages import ToolResultMessage, UserMessage

CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, with what stands beside its body.

    Attributes:
        request: its body.
        agent: from its path; None leaves it to `model`.
        key: idempotency key.
        session: to go on in.
        payment: what pays for the run.
    """

    request: ChatRequest
    agent: str | None = None
    key: str | None = None
    session: str | None = None
    payment: SubmittedPayment | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The part of a run that answers a request.

    Attributes:
        part: which.
        agent: whose.
        created: seconds since the epoch.
    """

    part: Part
    agent: str
    created: int


async def open_part(caller: Caller, asked: Asked) -> Opened:
    """Find or begin the run that answers a request. When this returns it is stored, and will go on whatever happens.

    Raises:
        ChatFault: the request cannot be used.
        PaymentNeeded: the agent is paid for, and there is no payment or it is refused.
        UnknownAgent: there is no such agent.
        KeyConflict: the key was used with another request.
        UserError: likewise what `Sessions.submit` raises.
    """
    row = await find_agent(caller.database, caller.tenant, asked.agent or asked.request.model)
    own = _tools_of(row)
    _check_tools(asked.request, own)
    messages, fetched = await read_messages(caller, asked.request)
    turn = chat_turn(messages, Clock(new_id, datetime.now(UTC)), fetched)
    options = chat_options(asked.request, turn, _kind(row))
    options = replace(options, client_tools=[tool for tool in options.client_tools if tool["name"] not in own])
    handle, answered = await _run(caller, asked, row, turn, options)
    names = await _client_tools(caller, handle)
    part = Part(
        handle,
        [*names, *(name for name, effect in own.items() if effect == CLIENT)],
        partial(runs_alone, row.spec),
        answered,
        has_key=asked.key is not None or bool(answered),
        is_paid=row.spec.get("paid") is not None,
    )
    return Opened(part, row.name, int(time.time()))


async def _run(
    caller: Caller, asked: Asked, row: AgentRow, turn: ChatTurn, options: RunOptions
) -> tuple[RunHandle, frozenset[str]]:
    """The run that answers, and the waits that it has answers to from this request."""
    if turn.results is not None:
        found = await hand_over(caller, row.name, turn.results.results)
        if found is not None:
            await _pay(caller, asked, found[0], row.name)
            return found
    elif turn.history and isinstance(turn.history[-1], ToolResultMessage):
        await let_go(caller, row.name, turn.history[-1].results)
    handle = await _submit(caller, asked, row, turn, await _paid(caller, asked, row.name, options))
    if handle.accepted.repeated:
        await _pay(caller, asked, handle, row.name)
    return handle, frozenset()


async def _client_tools(caller: Caller, handle: RunHandle) -> list[str]:
    """Names of the tools that the client of a run's first request runs, whatever later ones have."""
    options = await read_options(caller.database, handle.accepted.key, handle.id)
    return [str(tool["name"]) for tool in cast("list[dict[str, Any]]", options.get("client_tools") or [])]


async def _paid(caller: Caller, asked: Asked, agent: str, options: RunOptions) -> RunOptions:
    """The options of a run with what pays for it. Whether that covers a run that may have had it already the run says."""
    if asked.key is None or asked.payment is None:
        source = await caller.payments.require(agent, asked.payment)
        return options if source is None else replace(options, payment=source)
    return await with_payment(caller, agent, asked.payment, options)


async def _pay(caller: Caller, asked: Asked, handle: RunHandle, agent: str) -> None:
    """Pay for a run that goes on only then, if the request brings a payment."""
    if asked.payment is None:
        return
    refused = await caller.payments.submit(handle.id, asked.payment, by=caller.principal.name)
    if isinstance(refused, Refusal):
        paid = await caller.payments.policy(agent)
        raise PaymentNeeded(
            refused.message, code=refused.code, accepts=ways_to_pay(paid) if paid else (), can_retry=refused.can_retry
        )


async def _submit(caller: Caller, asked: Asked, row: AgentRow, turn: ChatTurn, options: RunOptions) -> RunHandle:
    """Begin a run: in the session that is named, else in one of its own, which begins with the request's history."""
    session = _session(asked)
    message = turn.user or UserMessage([])
    if session is not None and turn.user is None:
        raise ChatFault(
            f"in session {session[:60]!r} nothing waits for this; end 'messages' with the user's message",
            param="messages",
        )
    history = [] if session is not None else [*turn.history, *([turn.results] if turn.results is not None else [])]
    return await caller.sessions.submit(
        row.name, message, session=session, key=asked.key, options=options, history=history
    )


def _session(asked: Asked) -> str | None:
    named = asked.request.session
    if asked.session is not None and named is not None and asked.session != named:
        raise ChatFault("metadata.session_id and the header X-Session-Id differ; give one", param="metadata")
    return asked.session or named


def _tools_of(row: AgentRow) -> dict[str, str]:
    """The agent's tools: their effects by name."""
    tools = cast("list[dict[str, Any]]", row.spec.get("tools") or [])
    return {str(tool["name"]): str(tool.get("effect", "")) for tool in tools}


def _check_tools(request: ChatRequest, own: Mapping[str, str]) -> None:
    known = set(own)
    for place, tool in enumerate(request.tools or ()):
        name = tool.function.name
        if own.get(name) == CLIENT:
            continue
        if name in known:
            whose = "the agent has a tool of this name" if name in own else "another tool has this name"
            raise ChatFault(f"tool {name!r}: {whose}; give it another", param=f"tools.{place}.function.name")
        known.add(name)


def _kind(row: AgentRow) -> ModelKind:
    model = cast("dict[str, Any] | None", row.spec.get("model")) or {}
    return ModelKind(str(model.get("provider") or ""), str(model.get("api") or ""))
