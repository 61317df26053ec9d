"""Where a chat is: its session, and what of it a client is told next."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.api.access import Caller
from perdure.errors import UnknownSession
from perdure.store.run_spans import RunSpan
from perdure.store.sessions import SessionRow, read_session
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.session_key import SessionKey


@dataclass(frozen=True, slots=True)
class Turn:
    """What the client is told next.

    Attributes:
        span: of the run.
        answered: ids of the waits that the client has answered; empty if it is told the run from its beginning.
    """

    span: RunSpan
    answered: frozenset[str] = frozenset()


def chat_key(tenant: str, chat: str) -> SessionKey:
    """The session of a chat."""
    lowered = chat.strip().lower()
    return SessionKey(tenant, lowered if is_uuid4(lowered) else derive_id(tenant, "chat", chat))


async def find_chat(caller: Caller, chat: str) -> SessionRow | None:
    """The session of a chat; None if there is none yet."""
    try:
        return await read_session(caller.database, chat_key(caller.tenant, chat))
    except UnknownSession:
        return None
