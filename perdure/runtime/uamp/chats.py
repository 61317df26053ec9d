"""Chats: sessions that several sessions of UAMP share, and what one of these tells the others. Source: UAMP 1.0, section 6.19."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypedDict

from perdure.protocols.uamp_events.client_events import MessageRead, SessionEnd
from perdure.protocols.uamp_events.surrounding_events import (
    PresenceOffline,
    PresenceOnline,
    PresenceTyping,
)
from perdure.protocols.uamp_events.wire import Event
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.uamp.held import held_session
from perdure.store.uamp.mail import post, post_to_chat
from perdure.store.uamp.rows import UampSessionRow
from perdure.uap.ids import derive_id, new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


class Head(TypedDict):
    """What a new event begins with."""

    event_id: str
    timestamp: int


def chat_session(tenant: str, agent: str, chat: str | None, uamp_session: str) -> str:
    """The id of the session that a chat is.

    Args:
        tenant: whose chat it is.
        agent: that answers in it.
        chat: its name as a client wrote it; None for one of this session alone.
        uamp_session: the client's session.
    """
    if chat is None:
        return derive_id("uamp", tenant, "alone", uamp_session)
    return derive_id("uamp", tenant, "chat", agent, chat)


def presence(user: str, username: str | None, chat: str, *, online: bool) -> JSONObject:
    """The event that a user has come, or has gone."""
    kind = PresenceOnline if online else PresenceOffline
    return kind(**_head(), user_id=user, username=username, chat_id=chat).to_json()


def chat_name(row: UampSessionRow) -> str:
    """A chat as its clients call it: by its name, else by the session that it is."""
    return row.chat or row.session


class UampChats:
    """The chats of one tenant."""

    def __init__(self, database: Database, tenant: str, announcer: Announcer) -> None:
        """Of the mail in `database`, told through an announcer of mail."""
        self._database = database
        self._tenant = tenant
        self._announcer = announcer

    def announce(self, uamp_session: str) -> None:
        """A session has new mail."""
        self._announcer.changed(SessionKey(self._tenant, uamp_session))

    async def post(
        self, uamp_session: str, events: Sequence[JSONObject], *, notes: Sequence[str | None] | None = None
    ) -> bool:
        """Put events into a session's mail; see `perdure.store.uamp.mail.post`."""
        there = await post(self._database, self._tenant, uamp_session, events, notes=notes)
        self.announce(uamp_session)
        return there

    async def typing(self, row: UampSessionRow, *, is_typing: bool) -> None:
        """Tell the chat's other sessions that the user is typing, or has stopped."""
        told = PresenceTyping(
            **_head(), user_id=row.user, username=row.username, is_typing=is_typing, chat_id=chat_name(row)
        )
        await self._tell(row, told)

    async def read(self, row: UampSessionRow, message_id: str) -> None:
        """Tell them that the user has read a message."""
        await self._tell(row, MessageRead(**_head(), chat_id=chat_name(row), message_id=message_id, user_id=row.user))

    async def end(self, uamp_session: str, reason: str) -> bool:
        """End a session and tell its client; whether there was one that had not ended."""
        async with held_session(self._database, self._tenant, uamp_session) as held:
            if held is None or held.row.ended_at is not None:
                return False
            await held.post([SessionEnd(**_head(), session_id=uamp_session, reason=reason).to_json()])
            await held.end(reason)
        self.announce(uamp_session)
        return True

    async def _tell(self, row: UampSessionRow, event: Event) -> None:
        posted = await post_to_chat(self._database, row.key, event.to_json(), but=row.id)
        for ident in posted:
            self.announce(ident)


def _head() -> Head:
    return Head(event_id=new_id(), timestamp=int(time.time() * 1000))
