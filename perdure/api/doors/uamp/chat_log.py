"""A chat's log as one session's client is told it: its own responses by their events, what others said by its messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from perdure.api.doors.uamp.cursor import Cursor
from perdure.api.doors.uamp.replay import flow_of
from perdure.api.doors.uamp.services import Services
from perdure.protocols.uamp_events.content_items import TextItem
from perdure.protocols.uamp_events.conversation import from_upp
from perdure.protocols.uamp_events.event_place import Place, read_place
from perdure.protocols.uamp_events.log_row import Head, RowHeads
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.protocols.uamp_events.server_events import ResponseCancelled, ResponseDone
from perdure.protocols.uamp_events.surrounding_events import ChatMessage, MessageCreated, ServerEvent
from perdure.runtime.followed_run import CHILD_STARTED
from perdure.runtime.response_rows import ResponseRows
from perdure.runtime.run_answers import messages_said
from perdure.runtime.uamp.chats import chat_name
from perdure.runtime.unfolding import split_at
from perdure.store.events import Event
from perdure.store.messages import read_message
from perdure.store.run_spans import read_run_span
from perdure.store.runs import find_run
from perdure.store.uamp.opening import find_session
from perdure.store.uamp.responses import end_response
from perdure.store.uamp.rows import ResponseRow, UampSessionRow
from perdure.store.uamp.told_runs import response_of_input, responses_behind
from perdure.upp.messages import Message

Placed: TypeAlias = tuple[Place, ServerEvent]
T = TypeVar("T")

_STARTED, _STORED = "run.started", ("run.completed", "run.cancelled")
_REMEMBERED = 1000


@dataclass(slots=True)
class Own:
    """A run that is a response of the session; `is_told`: its end."""

    response: ResponseRow
    flow: ResponseFlow
    rows: ResponseRows
    is_told: bool = False


class ChatLog:
    """Reads the rows of a chat's log, one after the other."""

    def __init__(self, services: Services, session: UampSessionRow, start: Cursor) -> None:
        """Read for a session's client that stands at `start`."""
        self._services = services
        self._session = session
        self._start = start.place
        self._own: dict[str, Own] = {}
        self._others: dict[str, ResponseRow | None] = {}
        self._over: dict[str, None] = {}
        self._children: list[tuple[str, Event]] = []

    async def first(self) -> int:
        """The number behind which rows must be read: from there on all that is open at the start is told anew."""
        behind = await responses_behind(self._services.database, self._session.key, self._session.id, self._start.seq)
        first = self._start.seq
        for response in behind:
            assert response.run is not None
            span = await read_run_span(self._services.database, self._session.tenant, response.run)
            if span.before < self._start.seq:
                first = min(first, span.before)
        return first

    async def read(self, row: Event) -> list[Placed]:
        """The events of the next row, each with its place; also those of a row that was held back until this one."""
        if row.run is None or row.run in self._over:
            return []
        own = await self._find(row.run)
        if own is None:
            return await self._of_other(row, row.run)
        if row.type == CHILD_STARTED and own.flow.thinking:
            self._children.append((own.response.id, row))
        events: list[ServerEvent] = []
        for piece in split_at(row, self._start.seq):
            for whole in await own.rows.read(piece):
                answer = None if whole.answer is None else whole.answer.message
                events += own.flow.take(whole.row, answer=answer)
        if own.flow.is_over and not own.is_told:
            own.is_told = True
            await end_response(self._services.database, self._session.tenant, own.response.id)
        if own.flow.is_over and own.flow.is_settled:
            del self._own[row.run]
            _remember(self._over, row.run, None)
        return [_placed(await self._signed(own, event)) for event in events]

    def new_children(self) -> list[tuple[str, Event]]:
        """Sub-agents that have begun since this was asked: their response, and the row that says so."""
        found, self._children = self._children, []
        return found

    def is_open(self, response_id: str) -> bool:
        """Whether a response has begun and not ended."""
        return any(own.response.id == response_id and not own.flow.is_over for own in self._own.values())

    def reminders(self) -> list[ServerEvent]:
        """What the client still has to answer, as it was told."""
        found: list[ServerEvent] = []
        for own in self._own.values():
            payment = own.flow.payment_reminder()
            found += [*own.flow.reminders(), *([] if payment is None else [payment])]
        return found

    def cut_off(self, head: Callable[[], Head]) -> list[ServerEvent]:
        """The ends of responses whose runs have not ended: what they had put out."""
        return [
            ResponseCancelled(
                **head(),
                response_id=own.response.id,
                partial_output=[TextItem(text=own.flow.text)] if own.flow.text else [],
            )
            for own in self._own.values()
            if not own.flow.is_over
        ]

    async def _find(self, run: str) -> Own | None:
        if run in self._own or run in self._others:
            return self._own.get(run)
        response = await response_of_input(self._services.database, self._session.key, run)
        if response is None or response.uamp_session != self._session.id:
            _remember(self._others, run, response)
            return None
        rows = ResponseRows(self._services.database, self._session.key, run)
        own = self._own[run] = Own(response, flow_of(self._session, response, run), rows)
        return own

    async def _signed(self, own: Own, event: ServerEvent) -> ServerEvent:
        if not isinstance(event, ResponseDone) or own.response.request_sha256 is None:
            return event
        return await self._services.backend.signer.signed(
            event,
            request=own.response.request_sha256,
            issuer=self._session.agent,
            audience=self._session.principal,
        )

    async def _of_other(self, row: Event, run: str) -> list[Placed]:
        """What others in the chat have said, and what they were answered."""
        if row.source != "run" or row.type not in (_STARTED, *_STORED):
            return []
        if row.type in _STORED:
            run_row = await find_run(self._services.database, self._session.tenant, run)
            heads = self._heads(row)
            said = await messages_said(self._services.database, run_row)
            return [self._message(heads, ident, message, None) for ident, message in said]
        stored = await read_message(self._services.database, self._session.key, str(row.data.get("message", "")))
        if stored is None:
            return []
        return [self._message(self._heads(row), stored.id, stored.message, await self._speaker(run))]

    async def _speaker(self, run: str) -> str | None:
        response = self._others.get(run)
        if response is None:
            return None
        speaker = await find_session(self._services.database, response.tenant, response.uamp_session)
        return None if speaker is None else speaker.user

    def _heads(self, row: Event) -> RowHeads:
        return RowHeads(self._session.id, "chat", row)

    def _message(self, heads: RowHeads, ident: str, message: Message, name: str | None) -> Placed:
        head, said = heads.next(), from_upp(message)
        shown = ChatMessage(
            id=ident,
            role=said.role,
            content=said.content or "",
            content_items=said.content_items or None,
            name=said.name or name,
            created_at=head["timestamp"] // 1000,
        )
        return _placed(MessageCreated(**head, chat_id=chat_name(self._session), message=shown))


def _placed(event: ServerEvent) -> Placed:
    place = read_place(event.event_id)
    assert place is not None, "events of rows have placed ids"
    return place, event


def _remember(known: dict[str, T], run: str, value: T) -> None:
    known[run] = value
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
