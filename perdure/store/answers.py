"""A model's answer: its deltas while it comes, its row when it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, sha256_hex


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: the run, and the Temporal execution that carries it on."""

    key: SessionKey
    run: str
    execution: str


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An assistant message as it is stored, with where it stands and the tool calls it opens.

    Attributes:
        scaffold: it is its strategy's own, no part of the thread.
        calls: each {"call_id", "tool", "args_sha256", "effect"}, with "mark", the number of this attempt, if it is about to be
            made and its effect asks for a mark.
        prompt: the prompt that it answers, {"id", "sha256"}; it stands at the position before. None if there is none.
        prompt_body: the prompt's stored body.
    """

    id: str
    node: str
    position: int
    step: int
    sha256: str
    body: bytes
    usage: JSONObject
    stop: str
    results_id: str
    calls: list[JSONObject]
    scaffold: bool = False
    prompt: JSONObject | None = None
    prompt_body: bytes | None = None


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """What storing an answer came to.

    Attributes:
        kind: "won"; "stored" if it was there before; "late" if the run has ended; "gone" if the session is deleted.
        paused: the session is; then no call is marked.
    """

    kind: str
    paused: bool = False


async def save_answer(
    database: Database, writer: Writer, row: AnswerRow, events: list[JSONValue], pending: Sequence[JSONObject]
) -> SavedAnswer:
    """Store an answer and open its tool calls; those that are marked as running, which they are from then on."""
    seal = database.seal(writer.key)
    answer = await database.call(
        "save_answer_v2", writer.key.tenant, writer.key.session, writer.run, writer.execution, row.id, row.node,
        row.position, row.step, row.sha256, seal.body(row.body), escaped_json(row.usage), row.stop, row.results_id,
        escaped_json(row.calls), seal.event_text(events), seal.record_text(pending), row.scaffold, None if row.prompt is None else escaped_json(row.prompt),
        None if row.prompt_body is None else seal.body(row.prompt_body),
    )  # fmt: skip
    return SavedAnswer(str(answer["kind"]), bool(answer.get("paused")))


async def keep_turn(
    database: Database,
    writer: Writer,
    node: str,
    *,
    at: str,
    settle: bytes,
    keep: Sequence[str],
    rows: Sequence[JSONObject],
    bodies: Sequence[bytes],
    hidden: bool,
) -> int | None:
    """Make a turn that a hook returned the run's; tool calls that are still open get a result first.

    Args:
        database: the store.
        writer: who writes.
        node: the run's thread node.
        at: the time of messages that are made here, ISO 8601 with milliseconds.
        settle: result JSON of open tool calls.
        keep: row ids of the run's messages that are in the turn.
        rows: id, step, type and sha256 of the turn's other messages, oldest first.
        bodies: their stored bodies.
        hidden: the turn is to be checked before anybody sees it.

    Returns:
        Messages of the node now; None if the run has ended or the session is deleted.
    """
    answer = await database.call(
        "keep_turn_v2", writer.key.tenant, writer.key.session, writer.run, node, at, sha256_hex(settle), settle,
        escaped_json(list(keep)), escaped_json(list(rows)), database.seal(writer.key).bodies(bodies), hidden,
    )  # fmt: skip
    return cast("int | None", answer.get("end"))


async def keep_own_turn(
    database: Database,
    writer: Writer,
    node: str,
    *,
    at: str,
    settle: bytes,
    keep: Sequence[str],
    rows: Sequence[JSONObject],
    bodies: Sequence[bytes],
    pending: Sequence[JSONObject],
) -> tuple[str, int]:
    """Make the turn of a strategy of the user's own its run's; as `keep_turn`, but that new messages have their places.

    Args:
        database: the store.
        writer: who writes.
        node: the run's thread node.
        at: the time of messages that are made here, ISO 8601 with milliseconds.
        settle: result JSON of open tool calls.
        keep: row ids of the run's messages that are in the turn.
        rows: id, position, step, type and sha256 of the turn's other messages.
        bodies: their stored bodies.
        pending: records to write with them.

    Returns:
        "kept", "late" or "gone"; and the messages of the node now.
    """
    seal = database.seal(writer.key)
    answer = await database.call(
        "keep_own_turn_v1", writer.key.tenant, writer.key.session, writer.run, writer.execution, node, at,
        sha256_hex(settle), settle, escaped_json(list(keep)), escaped_json(list(rows)), seal.bodies(bodies),
        seal.record_text(pending),
    )  # fmt: skip
    return str(answer["kind"]), cast(int, answer.get("end") or 0)


async def append_deltas(
    database: Database,
    writer: Writer,
    message: str,
    *,
    token: str,
    reset: bool,
    first: int,
    events: Sequence[JSONObject],
    pending: Sequence[JSONObject],
) -> str:
    """Append deltas of one attempt at one answer; safe to repeat.

    Args:
        database: the store.
        writer: who writes.
        message: the answer's id.
        token: the attempt; unique among attempts at this answer.
        reset: take the answer over from an earlier attempt.
        first: index of the first of `events` among this attempt's.
        events: in order.
        pending: records to write with them.

    Returns:
        "won", or "late" or "gone" as `save_answer` says.
    """
    seal = database.seal(writer.key)
    answer = await database.call(
        "append_deltas_v1", writer.key.tenant, writer.key.session, writer.run, writer.execution, message, token, reset,
        first, seal.event_text(events), seal.record_text(pending),
    )  # fmt: skip
    return str(answer["kind"])


async def is_begun(database: Database, key: SessionKey, message: str) -> bool:
    """Whether an answer is stored, or deltas of it are."""
    sql = (
        "select split_part(coalesce(delta_key, ''), ':', 1) = $3 or exists (select from perdure.messages "
        "where tenant_id = $1 and session_id = $2 and id = $3) "
        "from perdure.session_heads where tenant_id = $1 and session_id = $2"
    )
    async with database.driver(key) as connection:
        return bool(await connection.fetchval(sql, key.tenant, key.session, message))


async def read_delta_text(database: Database, key: SessionKey, run: str, message: str) -> str:
    """The text of an answer that never became whole, from the deltas of its last attempt."""
    sql = (
        "select type, data from perdure.events where tenant_id = $1 and session_id = $2 and run_id = $3 "
        "and (type = 'text_delta' or type = 'message.reset') and data ->> 'message' = $4 order by seq"
    )
    async with database.driver(key) as connection:
        rows = await connection.fetch(sql, key.tenant, key.session, run, message)
    return _joined([(row["type"], row["data"]) for row in rows])


def _joined(rows: list[tuple[str, Any]]) -> str:
    parts: list[str] = []
    for kind, data in rows:
        if kind == "message.reset":
            parts.clear()
        else:
            parts.append(data["delta"].get("text") or "")
    return "".join(parts)
