"""Durable runs for the AI SDK's `useChat`: sent as it sends, told as UI message streams, resumed at any process.

A stream ends when its run has ended, or waits for the client. A client that leaves loses nothing: the run goes on.
Source: AI SDK 7, HttpChatTransport and UI message stream.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from perdure.api import shapes
from perdure.api.access import Caller, Reader, Runner
from perdure.api.answers import Answer
from perdure.api.doors.chat_ui_place import Turn, chat_key, find_chat
from perdure.api.doors.chat_ui_shapes import ChatMessages, ChatRequest
from perdure.api.doors.chat_ui_stream import ChatStreamResponse
from perdure.api.doors.chat_ui_turn import agent_of, take
from perdure.api.openapi import PAYMENT_NEEDED
from perdure.api.parameters import Key
from perdure.api.payments import Paying
from perdure.api.problems import Refused
from perdure.api.routes.control import reached_answer
from perdure.errors import UnknownRun
from perdure.runtime.threads.chat_messages import chat_messages
from perdure.runtime.threads.run_telling import RunTelling
from perdure.store.run_in_hand import find_run_in_hand
from perdure.store.run_spans import read_run_span
from perdure.store.runs import find_run
from perdure.store.sessions import SessionRow

PATH = "/api/chat"
router = APIRouter(prefix=PATH, tags=["chat"])

SESSION_HEADER = "Perdure-Session"
RUN_HEADER = "Perdure-Run"

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The run as a UI message stream, up to its end or until it waits for the client.",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'data: {"type":"start","messageId":"0d2c8f4e-6b1a-4f7d-9c3e-2a5b8d1e4f60"}\n\ndata: [DONE]\n\n',
            }
        },
    }
}
_NOTHING: dict[int | str, dict[str, Any]] = {204: {"description": "Nothing runs: there is no stream to resume."}}

ChatId = Annotated[str, Path(description="The chat's id.", examples=["7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"])]
AgentName = Annotated[str | None, Query(description="Who answers; `agent` of the body goes before it.")]
MessageId = Annotated[
    str | None,
    Query(description="The client's last assistant message: its stream is told again even if its run has ended."),
]


@router.post("", operation_id="chat", response_class=Response, responses={**_STREAM, **PAYMENT_NEEDED})
async def chat(
    caller: Runner, body: ChatRequest, payment: Paying, agent: AgentName = None, key: Key = None
) -> Response:
    """Hand in a message, or answers to tool calls, and follow what comes of it.

    When the answer begins the input is stored, and will be run whatever happens. The same message (by its `id`) is the
    same run. An edited message, or one that is answered once more, begins a branch of the thread.
    """
    named = await agent_of(caller, body, agent)
    turn = await take(caller, body, agent=named, key=key, payment=payment)
    return _told(caller, turn)


@router.get("/{chat}/stream", operation_id="resumeChat", response_class=Response, responses={**_STREAM, **_NOTHING})
async def resume(caller: Reader, chat: ChatId, message: MessageId = None) -> Response:
    """Follow the chat's run from its beginning; the client replaces what it has of the message."""
    run = await find_run_in_hand(caller.database, chat_key(caller.tenant, chat))
    if run is None and message is not None:
        run = await _ended_run(caller, chat, message)
    if run is None:
        return Response(status_code=204)
    return _told(caller, Turn(await read_run_span(caller.database, caller.tenant, run)))


@router.post(
    "/{chat}/stop",
    operation_id="stopChat",
    response_model=shapes.Controlled,
    responses={202: {"model": shapes.Recorded, "description": "It will be done as soon as a worker runs."}},
)
async def stop(caller: Runner, chat: ChatId) -> Answer:
    """Cancel the chat's run, and withdraw what is queued behind it."""
    await _known(caller, chat)
    return reached_answer(await caller.sessions.cancel_session(chat_key(caller.tenant, chat).session))


@router.get("/{chat}", operation_id="getChat", response_model=ChatMessages)
async def messages(caller: Reader, chat: ChatId) -> Answer:
    """Give the chat's messages, up to the run that is active: what a page begins with."""
    row = await _known(caller, chat)
    found = await chat_messages(caller.database, row.key)
    return Answer({"id": chat, "session": row.key.session, "agent": row.agent, "messages": [*found]})


def serves(path: str) -> bool:
    """Whether a path is the chat door's."""
    return path == PATH or path.startswith(f"{PATH}/")


def _told(caller: Caller, turn: Turn) -> ChatStreamResponse:
    telling = RunTelling(caller.database, turn.span, answered=turn.answered)
    headers = {SESSION_HEADER: turn.span.key.session, RUN_HEADER: turn.span.run}
    return ChatStreamResponse(telling.chunks(caller.backend.stream), caller.backend.patience, headers=headers)


async def _known(caller: Caller, chat: str) -> SessionRow:
    row = await find_chat(caller, chat)
    if row is None:
        raise Refused(404, "unknown_chat", f"no chat {chat[:80]!r}")
    return row


async def _ended_run(caller: Caller, chat: str, message: str) -> str | None:
    """The run of a message of the chat; None if it is none."""
    try:
        row = await find_run(caller.database, caller.tenant, message)
    except UnknownRun:
        return None
    return row.id if row.key == chat_key(caller.tenant, chat) else None
