"""A run's middleware after it: `after` or `on_error` is called, and the thread follows the turn that comes of it."""

from __future__ import annotations

from typing import cast

from temporalio import activity

from perdure.activities.around_context import with_run
from perdure.activities.border import from_description
from perdure.activities.contracts import AroundInput, AroundResult
from perdure.activities.held_events import held_events
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.redaction import clean_turn, described
from perdure.activities.services import Services
from perdure.activities.stored_run import StoredRun, read_stored_run, turned_rows
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.store.views import Replacement, RunView, save_left
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.middleware import MiddlewareContext, holds_deltas, leave
from perdure.uap.open_calls import answered
from perdure.uap.scaffold import scaffold_of
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.turn import Turn

_SETTLE = dumps("This tool was not run: its run ended, and middleware gave it another turn.")


async def leave_run(
    services: Services, writer: Writer, agent: Agent, call: AroundInput, view: RunView, context: MiddlewareContext
) -> AroundResult:
    """Call the hooks with what the run came to, and store what comes of it; if that is stored already, it counts."""
    if view.left is not None:
        return _result(view.left)
    run = await keep_trying(
        lambda: read_stored_run(
            services.database, writer, call.node, start=call.start, end=None, progress=call.progress
        ),
        deadline=STORE_PATIENCE,
    )  # fmt: skip
    made = _made(run, call)
    outcome = await _outcome(agent, view, context, made, call.run)
    crash_point("around.left")
    replacement, events = _stored_as(agent, call, run, made, outcome)
    left: JSONObject = {"outcome": "completed"}
    if isinstance(outcome, Exception):
        left = {"outcome": "failed", "error": described(outcome)}
    if replacement.turn is not None:
        left["turn"] = replacement.turn_sha256

    async def save() -> tuple[str, JSONObject]:
        return await save_left(
            services.database, writer, call.node, left, replacement,
            events=events, at=format_timestamp(now()), settle=_SETTLE,
        )  # fmt: skip

    crash_point("around.outcome_storing")
    kind, known = await keep_trying(save, deadline=STORE_PATIENCE)
    crash_point("around.outcome_stored")
    services.announcer.changed(writer.key)
    return _result(known) if kind in ("won", "stored") else AroundResult(kind=kind)


def _made(run: StoredRun, call: AroundInput) -> Turn | Exception:
    """What the run came to by itself."""
    if call.outcome != "completed":
        return from_description(cast(JSONObject, call.error or {"type": "RunError", "message": "the run failed"}))
    try:
        return run.turn(call.progress.cycles)
    except UPPError as error:  # no answer at all
        return error


async def _outcome(
    agent: Agent, view: RunView, context: MiddlewareContext, made: Turn | Exception, run: str
) -> Turn | Exception:
    try:
        return clean_turn(await leave(agent.middleware[: view.entered], context, made))
    except Exception as error:  # noqa: BLE001 - the run fails of it, which the workflow sees to
        return with_run(error, run)


def _stored_as(
    agent: Agent, call: AroundInput, run: StoredRun, made: Turn | Exception, outcome: Turn | Exception
) -> tuple[Replacement, list[JSONObject]]:
    """How the thread follows the outcome, and what viewers are told that they could not be told before."""
    if isinstance(outcome, Exception):
        return Replacement([]), []
    held = holds_deltas(agent.middleware)
    kept, rest = run.split(outcome)
    new = answered(rest)
    keep = [item.id for item in kept if not scaffold_of(item.message)]
    rows, bodies = turned_rows(call.run, call.progress.step, "left", new)
    answer = next((str(row["id"]) for row, item in zip(rows, new, strict=True) if item == outcome.response), "")
    events: list[JSONObject] = []
    if held and isinstance(made, Turn):
        events = held_events(run, made, outcome, answer=answer, attempt=activity.info().attempt)
    if isinstance(made, Turn) and outcome == made:
        return Replacement(keep), events
    return Replacement(keep, rows, bodies, dumps(outcome.to_json())), events


def _result(left: JSONObject) -> AroundResult:
    return AroundResult(
        outcome=str(left["outcome"]),
        error=cast("dict[str, object] | None", left.get("error")),
        turn_sha256=str(left.get("turn", "")),
    )
