"""Runs: recorded on the way, ended once. And how a run is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, Select, select

from perdure.errors import UnknownRun
from perdure.store.accepted import waiting_status
from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.inputs import RUNS
from perdure.store.json_text import escaped_json
from perdure.store.payloads import read_payloads
from perdure.store.tables import inputs, runs
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, loads

TERMINAL = ("completed", "failed", "cancelled")


async def record(
    database: Database,
    key: SessionKey,
    *,
    run: str | None,
    execution: str,
    pending: Sequence[JSONObject],
    note: str,
    events: Sequence[JSONObject],
    paused: bool | None,
    status: str | None,
    wait: JSONObject | None,
) -> tuple[str, str | None, list[JSONObject]]:
    """Write what must not wait for the next activity.

    Args:
        database: the store.
        key: the session.
        run: the active run, or None.
        execution: the Temporal execution that writes.
        pending: records of the run.
        note: its name within the session; a note is written once.
        events: the note's events; none if `wait` is given, whose event the store makes.
        paused: the session's paused flag from now on; None leaves it.
        status: the run's status from now on ("running" or "parked"); None leaves it.
        wait: a wait to open: id, kind, message, index, asked.

    Returns:
        "won", "late" (the run has ended) or "gone"; the id of the open wait: that of an earlier one for the same call if it is still open; and the
        records as they are written now.
    """
    seal = database.seal(key)
    answer = await database.call(
        "record_v1", key.tenant, key.session, run, execution, seal.record_text(pending), note,
        seal.event_text(_named(events, note)), paused, status,
        None if wait is None else escaped_json(seal.wait(wait)),
    )  # fmt: skip
    written = cast("list[JSONObject]", answer.get("pending") or [])
    return str(answer["kind"]), cast("str | None", answer.get("wait")), written


def _named(events: Sequence[JSONObject], note: str) -> list[JSONValue]:
    """The first event carries the note's name."""
    return [{**event, "n": note} if place == 0 else event for place, event in enumerate(events)]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends.

    Attributes:
        status: "completed", "failed" or "cancelled".
        error: {"type", "message", ...} of a failed run.
        usage: TokenUsage JSON.
        cycles: model calls.
        step: the last step.
        now: the workflow's time.
        at: the same as ISO 8601 with milliseconds, for messages made here.
        settle: result JSON for tool calls that are still open.
        settle_sha256: of `settle`.
        partial: an answer that never became whole: id, position, step, sha256; None if there is none.
        partial_body: its stored body.
        event: the terminal event.
        usage_by_agent: TokenUsage JSON of its sub-agents, by agent path.
    """

    status: str
    error: JSONObject | None
    usage: JSONObject
    cycles: int
    step: int
    now: datetime
    at: str
    settle: bytes
    settle_sha256: str
    event: JSONObject
    partial: JSONObject | None = None
    partial_body: bytes | None = None
    usage_by_agent: JSONObject = field(default_factory=dict[str, JSONValue])


async def end_run(database: Database, writer: Writer, ending: Ending, pending: Sequence[JSONObject]) -> JSONObject:
    """End a run, whatever it left open.

    Returns:
        `kind`: "won"; "gone" if the session is deleted; "stored" if the run had ended before, which may have been
        otherwise: then also its status, at, step, usage, cycles, error and usage_by_agent. `pending`: the records as they are written.
    """
    seal = database.seal(writer.key)
    return await database.call(
        "end_run_v3", writer.key.tenant, writer.key.session, writer.run, writer.execution, ending.status,
        seal.error_text(ending.error), escaped_json(ending.usage), ending.cycles,
        ending.step, ending.now, ending.at, ending.settle_sha256, ending.settle,
        None if ending.partial is None else escaped_json(ending.partial),
        None if ending.partial_body is None else seal.body(ending.partial_body),
        escaped_json(seal.event(ending.event)), seal.record_text(pending), escaped_json(ending.usage_by_agent),
    )  # fmt: skip


async def read_given_turn(database: Database, run: RunRow) -> JSONValue:
    """The turn, as JSON, that middleware put in place of the one that the run's messages make; None if it did not."""
    if run.turn_sha is None:
        return None
    return loads((await read_payloads(database, run.key, [run.turn_sha]))[run.turn_sha])


async def read_options(database: Database, key: SessionKey, run: str) -> JSONObject:
    """The options a run was submitted with."""
    sql = "select options from perdure.inputs where tenant_id = $1 and session_id = $2 and run_id = $3"
    async with database.driver(key) as connection:
        packed = await connection.fetchval(sql, key.tenant, key.session, run)
    return cast(JSONObject, loads(packed)) if packed else {}


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as lists and pages show it. A queued input is a run of status "queued" that has nothing else yet."""

    key: SessionKey
    id: str
    ordinal: int
    status: str
    node: str | None = None
    start_position: int | None = None
    step: int = 0
    usage: JSONObject | None = None
    cycles: int = 0
    error: JSONObject | None = None
    temporal_run_id: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    turn_sha: str | None = None
    """Of the turn that middleware put in place of the one that the run's messages make."""


async def find_run(database: Database, tenant: str, run: str) -> RunRow:
    """A run by id, also one that is still queued. The id of an input that joined a run answers that run.

    Raises:
        UnknownRun: there is none for this tenant.
    """
    async with database.reading(tenant) as connection:
        row = (await connection.execute(_row_of(tenant, run))).first()
        if row is not None:
            return run_row(row)
        waiting = select(inputs).where(inputs.c.tenant_id == tenant, inputs.c.run_id == run)
        queued = (await connection.execute(waiting)).first()
        if queued is not None and queued.state == "joined":
            joined = _row_of(tenant, queued.target_run)
            return run_row((await connection.execute(joined)).one())
    if queued is None:
        raise UnknownRun(f"no run {run}; `perdure sessions show SESSION` lists a session's runs")
    return queued_row(queued)


def _row_of(tenant: str, run: str) -> Select[Any]:
    """What selects a run's row."""
    return select(runs).where(runs.c.tenant_id == tenant, runs.c.id == run)


async def list_runs(database: Database, key: SessionKey) -> list[RunRow]:
    """A session's runs in order, the queued ones last.

    The queue is read first: a run that begins meanwhile is then in both, and not in neither.
    """
    async with database.reading(key) as connection:
        waiting = select(inputs).where(
            inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.state == "queued",
            inputs.c.kind.in_(RUNS),
        )  # fmt: skip
        queued = (await connection.execute(waiting.order_by(inputs.c.ordinal))).all()
        query = select(runs).where(runs.c.tenant_id == key.tenant, runs.c.session_id == key.session)
        begun = (await connection.execute(query.order_by(runs.c.ordinal))).all()
    known = {row.id for row in begun}
    return [run_row(row) for row in begun] + [queued_row(row) for row in queued if row.run_id not in known]


def run_row(row: Row[Any]) -> RunRow:
    """A run that has begun."""
    return RunRow(
        key=SessionKey(row.tenant_id, row.session_id),
        id=row.id,
        ordinal=row.ordinal,
        status=row.status,
        node=row.node_id,
        start_position=row.start_position,
        step=row.step,
        usage=row.usage,
        cycles=row.cycles,
        error=row.error,
        temporal_run_id=row.temporal_run_id,
        first_seq=row.first_seq,
        last_seq=row.last_seq,
        started_at=row.started_at,
        ended_at=row.ended_at,
        turn_sha=row.turn_sha,
    )


def queued_row(row: Row[Any]) -> RunRow:
    """A run of which there is only the input."""
    key = SessionKey(row.tenant_id, row.session_id)
    detail = cast("JSONObject | None", row.detail) or {}
    error = cast("JSONObject | None", detail.get("error"))
    return RunRow(key, row.run_id, row.ordinal, waiting_status(row.state), error=error)
