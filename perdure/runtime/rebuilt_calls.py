"""Rows of tool calls, made from what histories, the event log and the stored answers say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from perdure.activities.contracts import CallToolResult, RunFrame
from perdure.runtime.rebuilt_runs import KnownRun
from perdure.runtime.session_history import Asked, SessionHistory
from perdure.store.rebuilt import Identity, Kept, LogEntry, RowValues
from perdure.uap.stage_place import StagePlace, qualified
from perdure.upp.json_value import JSONValue, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage
from perdure.upp.tool_call import ToolCall


def unheard_answers(history: SessionHistory, kept: Kept) -> list[str]:
    """Ids of answers that are stored, and that history asks for but does not hold."""
    asked = (item for run in history.runs.values() for item in run.asked.items())
    return [message for message, call in asked if call.answer is None and message in kept.bodies]


def call_rows(
    run: KnownRun,
    kept: Kept,
    answers: Mapping[str, AssistantMessage],
    existing: Mapping[Identity, RowValues],
) -> list[RowValues]:
    """The rows of a run's tool calls.

    Args:
        run: what is known of it.
        kept: the rows that are truth.
        answers: bodies of `unheard_answers`.
        existing: the session's rows, by primary key; one of a call without a result stands as it is.
    """
    rows: list[RowValues] = []
    for message, asked in run.history.asked.items():
        refs, stage = _references(kept, asked), _stage_at(run, message)
        for index, (call, args) in enumerate(_calls(asked, answers.get(message))):
            place = (run.key.tenant, run.key.session, message, index)
            before = existing.get(place)
            effect = _effect(run.history.frame, call.tool_name, stage)
            state = _state(run, message, index, effect, refs[index] if refs else None, before)
            if state["state"] != "done" and before is not None:
                continue
            rows.append(
                run.owned(
                    message_id=message,
                    index=index,
                    run_id=run.history.frame.run,
                    step=asked.step,
                    call_id=call.tool_call_id,
                    tool=call.tool_name,
                    args_sha256=args,
                    effect=effect,
                    results_id=asked.results,
                    **state,
                )
            )
    return rows


def _calls(asked: Asked, body: AssistantMessage | None) -> list[tuple[ToolCall, str]]:
    """The tool calls of an answer, each with the hash of its arguments."""
    if asked.answer is not None:
        given = cast("dict[str, list[JSONValue]]", asked.answer.message).get("toolCalls") or []
        return list(zip(map(ToolCall.from_json, given), asked.answer.args, strict=True))
    return [(call, sha256_hex(dumps(call.arguments))) for call in (body.tool_calls if body else None) or []]


def _references(kept: Kept, asked: Asked) -> list[dict[str, Any]] | None:
    """What the tool-result message says of each call, once it is there."""
    body = kept.bodies.get(asked.results)
    return cast("list[dict[str, Any]] | None", body.refs) if body is not None else None


def _stage_at(run: KnownRun, message: str) -> str:
    """The stage where a run that walks a workflow was when it asked for an answer; "" of any other run."""
    place: StagePlace | None = None
    for name, asked in run.history.asked.items():
        place = place if asked.answer is None else asked.answer.stage
        if name == message:
            break
        results = (result for (of, _), result in run.history.called.items() if of == name and result is not None)
        place = next((result.stage for result in reversed(list(results)) if result.stage is not None), place)
    return "" if place is None else place.stage


def _effect(frame: RunFrame, tool: str, stage: str) -> str:
    spec = frame.spec.tool(tool) or frame.spec.tool(qualified(stage, tool))
    if spec is not None:
        return spec.effect
    declared = cast("list[dict[str, Any]]", frame.options.get("client_tools") or [])
    return "client" if any(item["name"] == tool for item in declared) else "none"


def _state(
    run: KnownRun, message: str, index: int, effect: str, ref: dict[str, Any] | None, before: RowValues | None
) -> RowValues:
    """How far a call has come: by history, else by the log, else by what the end of its run made of it."""
    place = (message, index)
    heard, logged = run.history.called.get(place), run.log.results.get(place)
    known = before or {}
    if heard is not None:
        return _done(heard, heard.duration_ms)
    if logged is not None:
        return _done(_logged_result(logged), known.get("duration_ms") or 0)
    # A `once` call that was handed to a worker counts as begun: it is never run again without asking.
    begun = effect == "once" and place in run.history.called
    attempt = known.get("attempt", int(begun))
    if ref is not None:
        settled = CallToolResult(
            is_error=ref["isError"], sha256=ref["ref"]["sha256"], size=ref["ref"]["size"], attempt=attempt
        )
        return _done(settled, None)
    return {
        "state": "running" if begun else "pending",
        "attempt": attempt,
        "is_error": None,
        "result_sha256": None,
        "result_bytes": None,
        "duration_ms": None,
        "approved": None,
        "used_sha256": None,
    }


def _done(result: CallToolResult, duration_ms: int | None) -> RowValues:
    return {
        "state": "done",
        "attempt": result.attempt,
        "is_error": result.is_error,
        "result_sha256": result.sha256,
        "result_bytes": result.size,
        "duration_ms": duration_ms,
        "approved": result.approved,
        "used_sha256": result.args_sha256 or None,
    }


def _logged_result(entry: LogEntry) -> CallToolResult:
    """A result by its event, which holds it whole or names its hash."""
    data = cast("dict[str, Any]", entry.data)
    raw = dumps(data["delta"].get("result"))
    whole = {"sha256": sha256_hex(raw), "size": len(raw)}
    named = cast("dict[str, Any]", data.get("cut", whole))
    return CallToolResult(
        is_error=bool(data["delta"].get("isError")),
        sha256=named["sha256"],
        size=named["size"],
        attempt=entry.attempt or 0,
    )
