"""What the middleware of a run left: the view of the conversation that its model calls get, its metadata, its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import update

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.tables import run_views
from perdure.upp.json_value import JSONObject, dumps, loads, sha256_hex


@dataclass(frozen=True, slots=True)
class RunView:
    """What a run's middleware left so far.

    Attributes:
        entered: how many middleware were entered; only these are to be left.
        metadata: the context's.
        start: position of the run's input, which may stand in place of the caller's.
        input: that of another input, cut; None if it is the caller's.
        error: what `before` raised.
        left: {"outcome", "error", "turn"} that the run came to, "turn" being the sha256 of another turn than its own;
            None if its middleware was not left yet.
        used: TokenUsage JSON of model calls that middleware made in `before`, by `path#middleware`.
    """

    entered: int
    metadata: dict[str, Any]
    start: int
    input: JSONObject | None = None
    error: JSONObject | None = None
    left: JSONObject | None = None
    used: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@dataclass(frozen=True, slots=True)
class Replacement:
    """The messages of a turn that is put in place of the run's own.

    Attributes:
        keep: row ids of the run's messages that stay in the thread.
        rows: id, step, type and sha256 of the turn's other messages, oldest first.
        bodies: their stored bodies.
        turn: the turn's JSON; None if the run keeps its own.
    """

    keep: Sequence[str]
    rows: Sequence[JSONObject] = ()
    bodies: Sequence[bytes] = ()
    turn: bytes | None = None

    @property
    def turn_sha256(self) -> str:
        """Of the turn; "" if the run keeps its own."""
        return "" if self.turn is None else sha256_hex(self.turn)


async def read_view(database: Database, writer: Writer) -> list[dict[str, Any]] | None:
    """The view of a run, as `perdure.activities.conversation` reads it; None if it sees the thread as it is."""
    sql = "select items from perdure.run_views where tenant_id = $1 and session_id = $2 and run_id = $3"
    async with database.driver(writer.key) as connection:
        packed = await connection.fetchval(sql, writer.key.tenant, writer.key.session, writer.run)
    return None if packed is None else cast("list[dict[str, Any]]", loads(packed))


async def read_parent_ids(database: Database, writer: Writer) -> JSONObject:
    """Agent and run whose sub-agent's session it is, as contexts and events name them; empty for any other."""
    sql = (
        "select p.agent_id, s.parent_run from perdure.sessions s join perdure.sessions p "
        "on p.tenant_id = s.tenant_id and p.id = s.parent_session where s.tenant_id = $1 and s.id = $2"
    )
    async with database.driver() as connection:
        row = await connection.fetchrow(sql, writer.key.tenant, writer.key.session)
    return {} if row is None else {"parentAgentId": row["agent_id"], "parentTurnId": row["parent_run"]}


async def read_run_view(database: Database, writer: Writer) -> RunView | None:
    """What the run's middleware left so far; None if it was not entered yet."""
    sql = (
        "select entered, metadata, result from perdure.run_views "
        "where tenant_id = $1 and session_id = $2 and run_id = $3"
    )
    async with database.driver(writer.key) as connection:
        row = await connection.fetchrow(sql, writer.key.tenant, writer.key.session, writer.run)
    if row is None:
        return None
    metadata = cast("dict[str, Any]", loads(row["metadata"]))
    return RunView(row["entered"], metadata, **row["result"])


async def save_entered(
    database: Database,
    writer: Writer,
    node: str,
    first: int,
    view: RunView,
    *,
    items: Sequence[JSONObject] | None,
    input: JSONObject | None = None,
    body: bytes | None = None,
) -> tuple[str, int]:
    """Store what `before` left, unless something is stored already.

    Args:
        database: the store.
        writer: who writes.
        node: the run's thread node.
        first: position of the caller's input.
        view: what to store.
        items: the view of the conversation; None if it is the thread as it is.
        input: id and sha256 of another input.
        body: its stored body.

    Returns:
        "won"; "stored" if it was there before; "late" if the run has ended; "gone" if the session is deleted. And the
        session's epoch.
    """
    result: JSONObject = {"start": view.start, "input": view.input, "error": view.error, **_used(view)}
    seal = database.seal(writer.key)
    answer = await database.call(
        "enter_run_v1", writer.key.tenant, writer.key.session, writer.run, node, first, view.entered,
        seal.error_text(view.error), seal.body(dumps(view.metadata)),
        None if items is None else seal.body(dumps(list(items))), escaped_json(seal.result(result)),
        None if input is None else escaped_json(input), None if body is None else seal.body(body),
    )  # fmt: skip
    return str(answer["kind"]), cast(int, answer.get("epoch") or 0)


async def save_metadata(database: Database, writer: Writer, metadata: JSONObject) -> None:
    """Store what a middleware that was told of an event left in the context's metadata."""
    packed = database.seal(writer.key).body(dumps(metadata))
    async with database.transaction() as connection:
        await connection.execute(update(run_views).where(*_is(writer)).values(metadata=packed))


async def save_left(
    database: Database,
    writer: Writer,
    node: str,
    left: JSONObject,
    replacement: Replacement,
    *,
    events: Sequence[JSONObject],
    at: str,
    settle: bytes,
) -> tuple[str, JSONObject]:
    """Store what the run came to after its middleware, unless something is stored already.

    Args:
        database: the store.
        writer: who writes.
        node: the run's thread node.
        left: see `RunView`.
        replacement: what stays in the thread, and what comes in place of the rest.
        events: for the log.
        at: the time of messages that are made here, ISO 8601 with milliseconds.
        settle: result JSON of tool calls that are still open, if the turn is another one.

    Returns:
        Kinds as `save_entered` says; and what is stored.
    """
    seal = database.seal(writer.key)
    answer = await database.call(
        "leave_run_v1", writer.key.tenant, writer.key.session, writer.run, node, at, sha256_hex(settle), settle,
        escaped_json(list(replacement.keep)), escaped_json(list(replacement.rows)), seal.bodies(replacement.bodies),
        replacement.turn_sha256, None if replacement.turn is None else seal.body(replacement.turn),
        escaped_json(seal.value(left)), seal.event_text(list(events)),
    )  # fmt: skip
    return str(answer["kind"]), cast(JSONObject, answer.get("left") or left)


def _used(view: RunView) -> JSONObject:
    return {"used": cast(JSONObject, view.used)} if view.used else {}


def _is(writer: Writer) -> tuple[Any, ...]:
    return (
        run_views.c.tenant_id == writer.key.tenant,
        run_views.c.session_id == writer.key.session,
        run_views.c.run_id == writer.run,
    )
