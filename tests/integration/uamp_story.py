"""A chat and its UAMP sessions, for tests of the store."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from perdure.runtime.uamp.chats import UampChats
from perdure.store import opening
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.opening import Opening
from perdure.store.uamp.held import HeldSession, held_session
from perdure.store.uamp.mail import CHANNEL, read_mail
from perdure.store.uamp.opening import find_session, open_session
from perdure.store.uamp.rows import NewUampSession, UampSessionRow
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

T = TypeVar("T")
_AT_ONCE = 8
"""Not more than a pool has connections: who waits too long for one is told that the server is away."""


async def at_once(works: Iterable[Awaitable[T]]) -> list[T]:
    """What comes of works that are done at the same time, some of them at a time."""
    permits = asyncio.Semaphore(_AT_ONCE)

    async def permitted(work: Awaitable[T]) -> T:
        async with permits:
            return await work

    return await asyncio.gather(*(permitted(work) for work in works))


@dataclass
class Chat:
    """One Perdure session, and the UAMP sessions that share it."""

    database: Database
    key: SessionKey = field(default_factory=lambda: SessionKey(f"tenant-{uuid.uuid4().hex}", new_id()))
    name: str | None = "room"

    def __post_init__(self) -> None:
        self.announcer = Announcer(self.database, CHANNEL)
        self.chats = UampChats(self.database, self.key.tenant, self.announcer)

    async def begin(self) -> Chat:
        """With its Perdure session."""
        await opening.open_session(self.database, self.key, Opening(agent="teller", agent_id="agent-1"))
        return self

    def new(self, user: str, **values: Any) -> NewUampSession:
        """A session that a user asks for."""
        given = NewUampSession(
            self.key.tenant, new_id(), self.key.session, "teller", f"principal {user}", user, user.title(), self.name,
            {"config": {"modalities": ["text"]}},
        )  # fmt: skip
        return replace(given, **values)

    async def join(self, user: str, **values: Any) -> UampSessionRow:
        """A session of a user."""
        row, made = await open_session(self.database, self.new(user, **values))
        assert made
        return row

    async def row(self, of: UampSessionRow) -> UampSessionRow:
        """A session as it is now."""
        found = await find_session(self.database, of.tenant, of.id)
        assert found is not None
        return found

    async def hold(self, stack: AsyncExitStack, of: UampSessionRow) -> HeldSession:
        """A session, held until the stack is closed."""
        held = await stack.enter_async_context(held_session(self.database, of.tenant, of.id))
        assert held is not None
        return held

    async def ask(self, of: UampSessionRow, response: str, *texts: str) -> None:
        """Have a session send inputs and ask for a response to them."""
        async with AsyncExitStack() as stack:
            held = await self.hold(stack, of)
            for text in texts:
                await held.add_input(f"input {text}", {"text": text})
            await held.ask_response(response, f"create {response}", {"agent": "teller"}, "hash")

    async def mail(self, of: UampSessionRow, after: int = 0) -> list[JSONObject]:
        """What its client was sent."""
        events = await read_mail(self.database, of.tenant, of.id, after=after)
        assert [event.seq for event in events] == list(range(after + 1, after + 1 + len(events)))
        for event in events:
            assert event.data["session_id"] == of.id
            assert uuid.UUID(str(event.data["event_id"]))
        return [event.data for event in events]

    async def types(self, of: UampSessionRow) -> list[str]:
        """The types of that."""
        return [str(event["type"]) for event in await self.mail(of)]
