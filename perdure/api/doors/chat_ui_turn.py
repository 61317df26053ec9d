"""What a chat request does: begins a run with a user's message, or lets a run go on with the client's answers.

A chat is a session: the one with its id, else one whose id follows from the tenant and the chat's name. Of the messages
that the client has only the last counts, for the session has the others; a chat that is not there yet begins with all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.api.access import Caller
from perdure.api.doors.chat_ui_answers import go_on
from perdure.api.doors.chat_ui_place import Turn, chat_key, find_chat
from perdure.api.doors.chat_ui_shapes import ChatRequest, Trigger
from perdure.api.payments import with_payment
from perdure.errors import InvalidInput
from perdure.protocols.threadprotocol.ui_message import NAMESPACE, ui_id_of
from perdure.protocols.threadprotocol.ui_request import assistant_messages, user_items
from perdure.protocols.uamp_events.content_items import WireMessage
from perdure.protocols.uamp_events.faults import EventRefused
from perdure.protocols.uamp_events.upp_blocks import urls_to_fetch, user_blocks
from perdure.runtime.content import fetch_media, keep_media
from perdure.runtime.threads.outgoing import session_history
from perdure.store.agents import first_agent
from perdure.store.pages import list_agents
from perdure.store.run_spans import read_run_span
from perdure.store.sessions import SessionRow
from perdure.store.waits import open_waits
from perdure.uap.ids import derive_id, new_id
from perdure.uap.options import RunOptions
from perdure.uap.payments import SubmittedPayment
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage


async def take(
    caller: Caller, asked: ChatRequest, *, agent: str, key: str | None, payment: SubmittedPayment | None
) -> Turn:
    """Do what a request asks for.

    Args:
        caller: who asks.
        asked: the request's body.
        agent: the one that answers.
        key: idempotency key of the request, if it has one.
        payment: what the request pays with.

    Raises:
        InvalidInput, InvalidThread: the request cannot be used.
        PaymentNeeded: the agent is paid for, and nothing is paid, or what is paid with is refused.
        Refused: it answers nothing that waits.
    """
    messages = [asked.message] if asked.message is not None else list(asked.messages)
    if not messages:
        raise InvalidInput("#/messages: it is empty; send the chat's UI messages, or its last one as `message`")
    last = messages[-1]
    if asked.trigger is Trigger.RESUME:
        raise InvalidInput("#/trigger: a stream is resumed by GET /api/chat/{id}/stream")
    if last.get("role") == "user":
        return await _Beginning(caller, asked, agent, key, payment).begin(messages)
    named = next((item for item in messages if item.get("id") == asked.message_id), last)
    if named.get("role") != "assistant":
        raise InvalidInput(
            "#/messages: the last one must be a user's, or an assistant's with answers to its tool calls"
        )
    return await go_on(caller, asked.id, named)


async def agent_of(caller: Caller, asked: ChatRequest, named: str | None) -> str:
    """Who answers in a chat.

    Raises:
        InvalidInput: nobody can.
    """
    row = await find_chat(caller, asked.id)
    wanted = asked.agent or named or (None if row is None else row.agent)
    if wanted is not None:
        return wanted
    rows = await list_agents(caller.database, caller.tenant)
    if not rows:
        raise InvalidInput("#/agent: no agent is registered; start one with `perdure worker MODULE:APP`")
    return first_agent(rows).name


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A user's message that begins a run."""

    caller: Caller
    asked: ChatRequest
    agent: str
    key: str | None
    payment: SubmittedPayment | None

    async def begin(self, messages: Sequence[JSONObject]) -> Turn:
        caller, chat = self.caller, chat_key(self.caller.tenant, self.asked.id)
        last = messages[-1]
        there = await find_chat(caller, self.asked.id)
        again = self._is_again(last)
        thread: list[Message] | None = None
        if there is None and len(messages) > 1:
            thread = await self._conversation(messages[:-1])
        elif there is not None and again:
            thread = _before(await session_history(caller.database, chat), str(last.get("id")))
        handle = await caller.sessions.submit(
            self.agent,
            await self._message(last),
            session=chat.session,
            create=True,
            key=self._key(last, again=again),
            options=await self._options(),
            thread=thread,
            title=self.asked.title,
            policy=await self._policy(there, again=again),
        )
        caller.backend.metrics.runs.labels("stream").inc()
        return Turn(await read_run_span(caller.database, caller.tenant, handle.id))

    async def _options(self) -> RunOptions:
        if self.payment is None:
            await self.caller.payments.require(self.agent, None)  # this client could not pay later
        return await with_payment(self.caller, self.agent, self.payment, self.asked.options.to_options())

    def _is_again(self, last: JSONObject) -> bool:
        """Whether the message takes the place of what was said from it on: it is edited, or answered once more."""
        named = self.asked.message_id
        return self.asked.trigger is Trigger.REGENERATE or (named is not None and named == last.get("id"))

    def _key(self, last: JSONObject, *, again: bool) -> str:
        """The same message is the same run, unless it is to be answered once more."""
        ident = last.get("id")
        if self.key is not None:
            return self.key
        return new_id() if again or not isinstance(ident, str) or not ident else derive_id("chat", "message", ident)

    async def _policy(self, there: SessionRow | None, *, again: bool) -> str:
        if self.asked.policy is not None:
            return self.asked.policy.value
        if there is None or there.active_run is None:
            return "enqueue"
        waits = await open_waits(self.caller.database, self.caller.tenant, there.key.session)
        return "interrupt" if again or any(wait.run == there.active_run for wait in waits) else "enqueue"

    async def _conversation(self, messages: Sequence[JSONObject]) -> list[Message]:
        """What was said in a chat that is not there yet."""
        made: list[Message] = []
        for place, message in enumerate(messages):
            if message.get("role") == "user":
                made.append(await self._message(message))
            elif message.get("role") == "assistant":
                made += assistant_messages(message, derive_id(self.asked.id, message_id(message, place)))
        return made

    async def _message(self, given: JSONObject) -> UserMessage:
        """A user's message as a run takes it: large files are stored apart, and the client's id for it is kept."""
        sessions, ident = self.caller.sessions, given.get("id")
        name = derive_id(self.caller.tenant, "chat", self.asked.id, message_id(given, 0))
        try:
            wire = WireMessage(role="user", content_items=user_items(given, name))
            (kept,) = await keep_media(sessions, [wire], made_by=self.caller.principal.name)
            items = kept.items()
            content = user_blocks(items, await fetch_media(sessions, urls_to_fetch(items)))
        except EventRefused as error:
            raise InvalidInput(f"#/messages: {error}") from error
        metadata = {NAMESPACE: {"id": ident}} if isinstance(ident, str) and ident else None
        return UserMessage(content, metadata=metadata)


def message_id(message: JSONObject, place: int) -> str:
    """The id that the client gave a message; its place if it gave none."""
    ident = message.get("id")
    return ident if isinstance(ident, str) and ident else f"#{place}"


def _before(history: Sequence[Message], ident: str) -> list[Message] | None:
    """What was said before a user's message; None if the session has no such message: then nothing is taken back."""
    places = [
        place
        for place, message in enumerate(history)
        if isinstance(message, UserMessage) and ident in (ui_id_of(message), message.id)
    ]
    return list(history[: places[-1]]) if places else None
