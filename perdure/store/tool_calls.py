"""The idempotency record of each tool call: pending, running (only `once`), done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(frozen=True, slots=True)
class CallState:
    """What the store knows of a call.

    Attributes:
        state: "pending", "running", "done"; "late" if the run has ended, "gone" if the session is deleted.
        answer: what was answered to the call's wait, or None.
        is_error: of a done call, likewise what follows.
        sha256: of the result's JSON.
        size: bytes of the result's JSON.
        duration_ms: milliseconds the tool took.
        attempt: the one that stored the result.
    """

    state: str
    answer: JSONObject | None = None
    is_error: bool = False
    sha256: str = ""
    size: int = 0
    duration_ms: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A tool's result as it is stored."""

    message: str
    index: int
    attempt: int
    is_error: bool
    sha256: str
    body: bytes
    duration_ms: int
    at: str


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
    database: Database, writer: Writer, message: str, index: int, *, claim: bool, attempt: int
) -> CallState:
    """Look a call up; with `claim`, mark a pending one as running, in one transaction."""
    answer = await database.call(
        "claim_call_v1", writer.key.tenant, writer.key.session, writer.run, message, index, claim, attempt
    )
    return _state(str(answer["state"]), answer)


async def save_result(
    database: Database, writer: Writer, row: ResultRow, events: list[JSONValue], pending: Sequence[JSONObject]
) -> Saved:
    """Store a result if the call has none; the last of a batch makes the tool-result message."""
    answer = await database.call(
        "save_result_v1", writer.key.tenant, writer.key.session, writer.run, writer.execution, row.message, row.index,
        row.attempt, row.is_error, row.sha256, row.body, row.duration_ms, row.at, escaped_json(events),
        escaped_json(list(pending)),
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
    )
