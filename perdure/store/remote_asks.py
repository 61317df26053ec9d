"""What runs have asked of agents elsewhere. An ask is opened with the wait of its call; `remote_leases` is of those who follow it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import JSON, Row, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.sealing import seal_in
from perdure.store.tables import remote_ask_frames, remote_asks, waits
from perdure.store.tool_calls import CallState, Question
from perdure.uap.ids import derive_id, tool_call_key, wait_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads

_KIND = "remote"

_OPEN_WAIT = text(
    "select perdure.open_wait_v1(:tenant, :session, :run, :id, :kind, :message, :index, cast(:asked as json), :call_sha,"
    " null, null, :seconds) as answer"
).columns(answer=JSON)


@dataclass(frozen=True, slots=True)
class NewAsk:
    """An ask that a call makes.

    Attributes:
        agent: the name of the agent that asks: the root one of the session's.
        tool: the called tool.
        url: of the server.
        binding: how it is talked to.
        signed: an unsigned answer is an error.
        peer: the agent's DID, if the tool says it.
        arguments: of the call, as they count.
    """

    agent: str
    tool: str
    url: str
    binding: str
    signed: bool
    peer: str | None
    arguments: JSONValue = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskRow:
    """An ask.

    Attributes:
        key: the session whose run asks.
        id: of its envelope.
        run: who waits.
        wait: the wait that its answer answers.
        own: the DID in whose name it was signed; None if it was not yet.
        peer: the DID that is asked; None if it is not known yet.
        arguments: of the call.
        envelope: as it was signed; None if it was not yet.
        stream_id: of the stream that it opens.
        accepted: the other side is known to have it.
        next_seq: of the frame that is to come.
        failures: how often following it failed, since something came.
        made_at: when the call was made.
    """

    key: SessionKey
    id: str
    run: str
    wait: str
    agent: str
    tool: str
    url: str
    binding: str
    signed: bool
    own: str | None
    peer: str | None
    arguments: JSONValue = field(repr=False)
    envelope: bytes | None = field(repr=False)
    stream_id: str
    accepted: bool
    next_seq: int
    failures: int
    made_at: datetime
    problem: JSONObject | None = None
    outcome: str | None = None


def ask_id(message: str, index: int) -> str:
    """The id of the envelope of a call, the same whoever sends it."""
    return derive_id(tool_call_key(message, index), "ask")


async def open_ask(
    database: Database, writer: Writer, message: str, index: int, question: Question, new: NewAsk, *, now: datetime
) -> CallState:
    """Open the wait of a call and the ask that is to answer it, or find them; state "open", "late" or "gone"."""
    key, ident = writer.key, ask_id(message, index)
    seconds = None if question.timeout is None else question.timeout.total_seconds()
    async with database.transaction(key) as connection:
        seal = seal_in(connection, key)
        asked = {
            "tenant": key.tenant, "session": key.session, "run": writer.run, "id": wait_id(message, index),
            "kind": question.kind, "message": message, "index": index, "asked": escaped_json(seal.value(question.asked)),
            "call_sha": question.args_sha256, "seconds": seconds,
        }  # fmt: skip
        answer = cast(JSONObject, (await connection.execute(_OPEN_WAIT, asked)).scalar_one())
        if answer["kind"] == "open":
            wait = await _open_wait(connection, key, message, index)
            row = seal.row(remote_asks, {
                "tenant_id": key.tenant, "id": ident, "session_id": key.session, "run_id": writer.run,
                "message_id": message, "index": index, "wait_id": wait, "agent": new.agent, "tool": new.tool,
                "url": new.url, "binding": new.binding, "signed": new.signed, "peer": new.peer,
                "asked": dumps(new.arguments), "stream_id": derive_id(ident, "stream"), "due_at": now, "made_at": now,
            })  # fmt: skip
            await connection.execute(insert(remote_asks).values(row).on_conflict_do_nothing())
    seconds_left = answer.get("seconds")
    return CallState(
        str(answer["kind"]),
        open=cast("str | None", answer.get("wait")),
        expires_s=float(seconds_left) if isinstance(seconds_left, int | float) else None,
    )


async def find_answer(database: Database, writer: Writer, message: str, index: int) -> JSONObject | None:
    """What a call's ask was answered, whether or not it has been handed out; None if it was not."""
    key = writer.key
    query = select(waits.c.answer).where(
        waits.c.tenant_id == key.tenant, waits.c.session_id == key.session, waits.c.message_id == message,
        waits.c.index == index, waits.c.kind == _KIND, waits.c.answer.is_not(None),
    )  # fmt: skip
    async with database.reading(key) as connection:
        return cast("JSONObject | None", await connection.scalar(query.order_by(waits.c.asked_at).limit(1)))


async def read_ask(database: Database, key: SessionKey, ask: str) -> AskRow | None:
    """One ask; None if there is none of that id in the session."""
    query = select(remote_asks).where(
        remote_asks.c.tenant_id == key.tenant, remote_asks.c.id == ask, remote_asks.c.session_id == key.session
    )
    async with database.reading(key) as connection:
        row = (await connection.execute(query)).first()
        return None if row is None else ask_row(row)


async def read_frames(database: Database, key: SessionKey, ask: str) -> list[bytes]:
    """The frames of an ask's stream that were kept, in order."""
    query = select(remote_ask_frames.c.frame).where(
        remote_ask_frames.c.tenant_id == key.tenant, remote_ask_frames.c.ask == ask
    )
    async with database.reading(key) as connection:
        return [*(await connection.scalars(query.order_by(remote_ask_frames.c.seq))).all()]


async def _open_wait(connection: AsyncConnection, key: SessionKey, message: str, index: int) -> str:
    query = select(waits.c.id).where(
        waits.c.tenant_id == key.tenant, waits.c.session_id == key.session, waits.c.message_id == message,
        waits.c.index == index, waits.c.used.is_(False),
    )  # fmt: skip
    return cast(str, (await connection.scalars(query.order_by(waits.c.asked_at, waits.c.id).limit(1))).one())


def ask_row(row: Row[Any]) -> AskRow:
    """An ask out of its row."""
    return AskRow(
        key=SessionKey(row.tenant_id, row.session_id),
        id=row.id,
        run=row.run_id,
        wait=row.wait_id,
        agent=row.agent,
        tool=row.tool,
        url=row.url,
        binding=row.binding,
        signed=row.signed,
        own=row.own,
        peer=row.peer,
        arguments=loads(row.asked),
        envelope=row.envelope,
        stream_id=row.stream_id,
        accepted=row.accepted,
        next_seq=row.next_seq,
        failures=row.failures,
        made_at=row.made_at,
        problem=row.problem,
        outcome=row.outcome,
    )
