"""The idempotency record of each tool call: pending, running (only `once`), done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.uap.ids import wait_id
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(frozen=True, slots=True)
class CallState:
    """What the store knows of a call.

    Attributes:
        state: "pending", "running", "done"; "late" if the run has ended, "gone" if the session is deleted.
        answer: what was answered to the call's wait and is handed out now, or None.
        is_error: of a done call, likewise what follows.
        sha256: of the result's JSON.
        size: bytes of the result's JSON.
        duration_ms: milliseconds the tool took.
        attempt: the one that stored the result.
        approved: whether a person or a predicate approved it; None if neither was asked.
        used_sha256: of the arguments that the tool was called with, where they are not the model's.
        wait: kind of the wait whose answer is handed out.
        by: who answered it.
        approval: what was answered to the call's last approval, now or before; None if there was none.
        approval_sha256: of the arguments which that was about.
        open: kind of the wait that is open, or None.
        expires_s: seconds after which that one answers itself; None for never.
    """

    state: str
    answer: JSONObject | None = None
    is_error: bool = False
    sha256: str = ""
    size: int = 0
    duration_ms: int = 0
    attempt: int = 0
    approved: bool | None = None
    used_sha256: str = ""
    wait: str | None = None
    by: str | None = None
    approval: JSONObject | None = None
    approval_sha256: str | None = None
    open: str | None = None
    expires_s: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A wait that a tool call's activity opens.

    Attributes:
        kind: of the wait.
        asked: tool name, call id and the arguments, cut.
        args_sha256: of the model's arguments.
        shown_sha256: of the arguments that are asked about, where that is what is asked.
        shown: those, as JSON.
        timeout: after which the wait answers itself; None for never.
    """

    kind: str
    asked: JSONObject
    args_sha256: str
    shown_sha256: str | None = None
    shown: bytes | None = None
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A tool's result as it is stored.

    Attributes:
        message: row id of the message that has the call.
        index: its place in it.
        attempt: of the activity.
        is_error: the tool failed.
        sha256: of the body.
        body: the result's JSON.
        duration_ms: milliseconds the tool took.
        at: when, ISO 8601.
        approved: whether a person or a predicate approved it; None if neither was asked.
        used_sha256: of the arguments that the tool was called with, where they are not the model's.
        used: those, as JSON.
    """

    message: str
    index: int
    attempt: int
    is_error: bool
    sha256: str
    body: bytes
    duration_ms: int
    at: str
    approved: bool | None = None
    used_sha256: str | None = None
    used: bytes | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What storing a result came to.

    Attributes:
        kind: "won", "stored" (there was one before; `state` is it), "late" or "gone".
        state: the stored result if there was one before.
        batch: id of the tool-result message if this was the last call of its batch.
        batch_sha256: of that message's stored body.
    """

    kind: str
    state: CallState | None = None
    batch: str | None = None
    batch_sha256: str | None = None


async def claim_call(
    database: Database, writer: Writer, message: str, index: int, *, claim: bool, attempt: int, args_sha256: str = ""
) -> CallState:
    """Look a call up; with `claim`, mark a pending one as running, in one transaction.

    Args:
        database: the store.
        writer: who asks.
        message: row id of the message that has the call.
        index: its place in it.
        claim: mark it.
        attempt: of the activity.
        args_sha256: of the model's arguments: an approval of other ones does not count.
    """
    answer = await database.call(
        "claim_call_v2", writer.key.tenant, writer.key.session, writer.run, message, index, claim, attempt, args_sha256
    )
    return _state(str(answer["state"]), answer)


async def open_wait(database: Database, writer: Writer, message: str, index: int, question: Question) -> CallState:
    """Open a wait of a call, or find the one that is there; state "open", "late" or "gone"."""
    seconds = None if question.timeout is None else question.timeout.total_seconds()
    seal = database.seal(writer.key)
    answer = await database.call(
        "open_wait_v1", writer.key.tenant, writer.key.session, writer.run, wait_id(message, index), question.kind,
        message, index, escaped_json(seal.value(question.asked)), question.args_sha256, question.shown_sha256,
        None if question.shown is None else seal.body(question.shown), seconds,
    )  # fmt: skip
    kind = str(answer["kind"])
    return CallState(kind, open=cast("str | None", answer.get("wait")), expires_s=_seconds(answer))


async def save_result(
    database: Database, writer: Writer, row: ResultRow, events: list[JSONValue], pending: Sequence[JSONObject]
) -> Saved:
    """Store a result if the call has none; the last of a batch makes the tool-result message."""
    plain = row.approved is None and row.used_sha256 is None
    seal = database.seal(writer.key)
    used = None if row.used is None else seal.body(row.used)
    more = () if plain else (row.approved, row.used_sha256, used)
    answer = await database.call(
        "save_result_v1" if plain else "save_result_v2", writer.key.tenant, writer.key.session, writer.run,
        writer.execution, row.message, row.index, row.attempt, row.is_error, row.sha256, seal.body(row.body),
        row.duration_ms, row.at, seal.event_text(events), seal.record_text(pending), *more,
    )  # fmt: skip
    kind = str(answer["kind"])
    return Saved(
        kind,
        state=_state("done", answer) if kind == "stored" else None,
        batch=cast("str | None", answer.get("batch")),
        batch_sha256=cast("str | None", answer.get("batch_sha")),
    )


def _state(state: str, answer: JSONObject) -> CallState:
    return CallState(
        state=state,
        answer=cast("JSONObject | None", answer.get("answer")),
        is_error=bool(answer.get("is_error")),
        sha256=str(answer.get("sha256") or ""),
        size=int(cast("int | None", answer.get("size")) or 0),
        duration_ms=int(cast("int | None", answer.get("duration_ms")) or 0),
        attempt=int(cast("int | None", answer.get("attempt")) or 0),
        approved=cast("bool | None", answer.get("approved")),
        used_sha256=str(answer.get("used_sha256") or ""),
        wait=cast("str | None", answer.get("wait")),
        by=cast("str | None", answer.get("by")),
        approval=cast("JSONObject | None", answer.get("approval")),
        approval_sha256=cast("str | None", answer.get("approval_sha")),
        open=cast("str | None", answer.get("open")),
        expires_s=_seconds(answer),
    )


def _seconds(answer: JSONObject) -> float | None:
    seconds = answer.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else None
