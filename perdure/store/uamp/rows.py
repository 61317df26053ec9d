"""What the rows of UAMP's sessions hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row

from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, loads


@dataclass(frozen=True, slots=True)
class NewUampSession:
    """A session that a client asks for.

    Attributes:
        id: a UUIDv4.
        session: the session that its chat is; it is there already.
        principal: who may use it, as the authenticator names them.
        user: who it is to the chat's others; of the same user they are told once.
        username: for people; None if none is known.
        chat: its name as the client wrote it; None if it wrote none.
        state: whatever else is to be remembered; secrets are not.
        token_expires_at: of the token that it was opened with, which is not kept.
        payment: what its responses are paid from, without secrets.
        told_log: the number in the chat's log behind which its client is told.
    """

    tenant: str
    id: str
    session: str
    agent: str
    principal: str
    user: str
    username: str | None
    chat: str | None
    state: JSONObject
    token_expires_at: datetime | None = None
    payment: JSONObject | None = None
    told_log: int = 0


@dataclass(frozen=True, slots=True)
class UampSessionRow:
    """A session. What is not said here is said at `NewUampSession`.

    Attributes:
        told_log: up to where its client was told of the chat's log; and
        told_mail: of its mail.
        last_mail: the number of the last event in its mail.
        version: has changed if anything has that a process may keep in memory.
        last_seen_at: when its client last sent an event that was applied.
    """

    tenant: str
    id: str
    session: str
    agent: str
    principal: str
    user: str
    username: str | None
    chat: str | None
    state: JSONObject = field(repr=False)
    token_expires_at: datetime | None
    payment: JSONObject | None
    told_log: int
    told_mail: int
    last_mail: int
    version: int
    created_at: datetime
    last_seen_at: datetime
    ended_at: datetime | None
    ended_reason: str | None

    @property
    def key(self) -> SessionKey:
        """The session that its chat is."""
        return SessionKey(self.tenant, self.session)


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """A response that a client asked for.

    Attributes:
        session: the session that its chat is.
        asked: what its run is begun with, besides the inputs.
        request_sha256: of what was asked, for the response's signature.
        run: the run that gives it; None before that is known.
        ended_at: when its end was told; its run may have ended before.
    """

    tenant: str
    id: str
    session: str
    uamp_session: str
    asked: JSONObject = field(repr=False)
    request_sha256: str | None
    run: str | None
    made_at: datetime
    begun_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Seat:
    """An open connection of a session."""

    id: str
    session: UampSessionRow


def session_row(row: Row[Any]) -> UampSessionRow:
    """A session from its row."""
    return UampSessionRow(
        row.tenant_id, row.id, row.session_id, row.agent, row.principal, row.user_id, row.username, row.chat,
        cast(JSONObject, loads(row.state)), row.token_expires_at, row.payment, row.told_log, row.told_mail,
        row.last_mail, row.version, row.created_at, row.last_seen_at, row.ended_at, row.ended_reason,
    )  # fmt: skip


def response_row(row: Row[Any]) -> ResponseRow:
    """A response from its row."""
    return ResponseRow(
        row.tenant_id, row.id, row.session_id, row.uamp_session, cast(JSONObject, loads(row.asked)),
        row.request_sha256, row.run_id, row.made_at, row.begun_at, row.ended_at,
    )  # fmt: skip
