"""What is to be done with a tool call of which something is known: run it, tell the model something, or wait for somebody.

Pure, but for `arguments_of`, which reads what was approved.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from perdure.activities.contracts import APPROVAL, CLIENT_TOOL, OUTCOME, CallToolInput, CallToolResult
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.services import Services
from perdure.errors import DamagedSession, OutcomeUnknown
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.store.payloads import read_payloads
from perdure.store.tool_calls import CallState, Question
from perdure.uap.cut import cut_value
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads, sha256_hex
from perdure.upp.tool_call import ToolCall
from perdure.upp.tools import CLIENT, HUMAN, Tool, ToolEffect

UNKNOWN = (
    "The outcome of this call is not known: the process that ran it ended before it could say. "
    "It was not run again. Check whether it had its effect before you repeat it."
)
REJECTED = "A person rejected this call. It was not run."
EXPIRED = "Nobody approved this call in time. It was not run."
NO_RESULT = "No result of this call came in time."


@dataclass(frozen=True, slots=True)
class Told:
    """What the model is told in place of running the call."""

    result: JSONValue
    is_error: bool = True
    approved: bool | None = None


@dataclass(frozen=True, slots=True)
class Approved:
    """A person has approved the call.

    Attributes:
        edit: arguments in place of those that were asked about; None if there are none.
        edit_sha256: of those.
        asked_sha256: of the arguments that were asked about.
    """

    edit: JSONValue
    edit_sha256: str | None
    asked_sha256: str | None


def decide(
    call: CallToolInput, tool_call: ToolCall, known: CallState, *, may_have_run: bool
) -> CallToolResult | Told | Approved | None:
    """What to do with a call that has no result: wait for somebody, tell the model something, or run it.

    Args:
        call: which.
        tool_call: as the model wrote it.
        known: what the store knows of it.
        may_have_run: another attempt or execution may have begun it.

    Returns:
        "parked"; what the model is told; what was approved; None to begin with the call as the model wrote it.

    Raises:
        OutcomeUnknown: somebody stopped the run, since nobody knows what came of the call.
    """
    if known.answer is None and known.open is not None:
        return CallToolResult(kind="parked", wait=known.open, expires_s=known.expires_s)
    if call.effect == CLIENT:
        return _from_client(known.answer)
    if known.answer is not None and known.wait == OUTCOME:
        return _settled(call, tool_call, known)
    if call.effect == ToolEffect.ONCE and known.state == "running":
        return CallToolResult(kind="parked", wait=OUTCOME)
    if known.approval is not None:
        return _decided(call, known)
    if call.effect == ToolEffect.AT_MOST_ONCE and may_have_run and call.approval != HUMAN:
        return Told(UNKNOWN)
    return None


def question_of(call: CallToolInput, tool: Tool, tool_call: ToolCall, arguments: JSONObject) -> Question:
    """What a person is asked about a call before it may run with these arguments."""
    body = dumps(arguments)
    return Question(
        kind=APPROVAL,
        asked=_asked(tool_call, arguments),
        args_sha256=call.args_sha256,
        shown_sha256=sha256_hex(body),
        shown=body,
        timeout=tool.approval_timeout,
    )


def question_for_client(call: CallToolInput, tool_call: ToolCall, timeout: timedelta) -> Question:
    """What a client is asked: the result of a call that it runs, if it comes in time."""
    return Question(CLIENT_TOOL, _asked(tool_call, tool_call.arguments), call.args_sha256, timeout=timeout)


def _asked(tool_call: ToolCall, arguments: JSONValue) -> JSONObject:
    shown, cut = cut_value(arguments)
    asked: JSONObject = {"tool": tool_call.tool_name, "call": tool_call.tool_call_id}
    return {**asked, "arguments": shown} if cut is None else {**asked, "arguments": {"preview": shown}, "cut": cut}


async def arguments_of(services: Services, writer: Writer, approved: Approved, tool_call: ToolCall) -> JSONValue:
    """The arguments that were approved: the edit, else those that were asked about.

    Raises:
        DamagedSession: what is stored has another hash.
    """
    if approved.edit_sha256 is not None:
        if sha256_hex(dumps(approved.edit)) != approved.edit_sha256:
            raise DamagedSession(f"the edited arguments of tool call {tool_call.tool_call_id!r} have changed")
        return approved.edit
    sha256 = approved.asked_sha256
    if sha256 is None:
        return tool_call.arguments
    found = await keep_trying(lambda: read_payloads(services.database, writer.key, [sha256]), deadline=STORE_PATIENCE)
    return loads(found[sha256])


def _from_client(answer: JSONObject | None) -> CallToolResult | Told:
    if answer is None:
        return CallToolResult(kind="parked", wait=CLIENT_TOOL)
    if answer.get("decision") == "expired":
        return Told(NO_RESULT)
    return Told(answer.get("result"), bool(answer.get("isError")))


def _settled(call: CallToolInput, tool_call: ToolCall, known: CallState) -> Told | Approved | None:
    """What somebody said of an unknown outcome; what was approved before holds for a call that was not run."""
    answer = known.answer or {}
    outcome = answer.get("outcome")
    if outcome == "not_run":
        return None if known.approval is None else _decided(call, known, was_run=False)
    if outcome == "happened":
        return Told(answer.get("result"), bool(answer.get("isError")))
    if outcome == "stop":
        raise OutcomeUnknown(
            f"the outcome of tool call {tool_call.tool_call_id!r} of tool '{tool_call.tool_name}' is not known, "
            f"and {known.by} stopped the run",
            run_id=call.run,
            code="stopped",
        )
    return Told(UNKNOWN)


def _decided(call: CallToolInput, known: CallState, *, was_run: bool | None = None) -> Told | Approved:
    """What came of asking a person. An approval that an attempt has taken counts again only if the effect allows it."""
    answer = cast(JSONObject, known.approval)
    decision = answer.get("decision")
    if decision == "answer":
        return Told(answer.get("result"), bool(answer.get("isError")), approved=False)
    if decision == "reject":
        reason = answer.get("reason")
        return Told(f"{REJECTED} The reason: {reason}" if reason else REJECTED, approved=False)
    if decision != "approve":
        return Told(EXPIRED, approved=False)
    taken_now = known.wait == APPROVAL and known.answer is not None
    may_have_run = not taken_now if was_run is None else was_run
    if call.effect == ToolEffect.AT_MOST_ONCE and may_have_run:
        return Told(UNKNOWN, approved=True)
    sha256 = answer.get("arguments_sha256")
    return Approved(answer.get("arguments"), str(sha256) if sha256 else None, known.approval_sha256)
