"""The entries of a session's event log, as the writers make them.

An entry is short-keyed JSON that one SQL function turns into rows: `s` source (run, uap or upp), `t` type, `p` step,
`a` attempt, `d` data. Data keys are the specification's. Source: UAP-1.0 section 12.2, UPP-1.2 streaming.
"""

from __future__ import annotations

from decimal import Decimal

from perdure.uap.cut import cut_value
from perdure.uap.payments import Balance, Settled, plain_amount
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent

CONTENT_ITEMS = "contentItems"
"""In the data of `tool_execution_end`: the facts of the media that the tool returned."""

PRESENTED = "presented"
"""Likewise: that this media is shown to the user."""

RUN_TERMINAL = ("run.completed", "run.failed", "run.cancelled")


def run_event(kind: str, data: JSONObject) -> JSONObject:
    """An event about a run or its session, for example `run.parked`."""
    return {"s": "run", "t": kind, "d": data}


def uap_event(kind: str, step: int, data: JSONObject) -> JSONObject:
    """A UAP event, for example `step_start`."""
    return {"s": "uap", "t": kind, "p": step, "d": data}


def upp_event(event: StreamEvent, *, step: int, attempt: int, message: str) -> JSONObject:
    """A UPP event of the model call that makes `message`."""
    data: JSONObject = {"message": message, "index": event.index, "delta": event.delta.to_json()}
    return {"s": "upp", "t": event.type.value, "p": step, "a": attempt, "d": data}


def payment_required(wait: str, asked: JSONObject) -> JSONObject:
    """A run waits for a payment: amount, currency, schemes, reason and the time until which it waits, in seconds."""
    return run_event("payment.required", {"wait": wait, **asked})


def payment_refused(refusal: JSONObject) -> JSONObject:
    """What was to pay does not: `Refusal` as JSON."""
    return run_event("payment.refused", refusal)


def payment_held(hold: str, amount: Decimal, balance: Balance, *, asked: bool) -> JSONObject:
    """An amount is kept for the run. `asked`: it had waited for that."""
    data: JSONObject = {"payment": hold, "amount": plain_amount(amount), **_balance(balance), "asked": asked}
    return run_event("payment.held", data)


def payment_settled(settled: Settled, *, is_low: bool) -> JSONObject:
    """What the run cost was taken; after its end. What is left would do for so many more of its kind."""
    data: JSONObject = {"charged": plain_amount(settled.charged), "short": plain_amount(settled.short)}
    if settled.balance is not None:
        data |= {**_balance(settled.balance), "low_balance_warning": is_low}
        if settled.charged > 0:
            data["estimated_remaining"] = int(settled.balance.available / settled.charged)
    return run_event("payment.settled", data)


def _balance(balance: Balance) -> JSONObject:
    told: JSONObject = {"currency": balance.currency, "balance": plain_amount(balance.available)}
    return told if balance.expires_at is None else {**told, "expires_at": int(balance.expires_at.timestamp())}


def action_data(message: AssistantMessage) -> JSONObject:
    """Data of `action`: the tool calls, long arguments as previews."""
    calls: list[JSONValue] = []
    for call in message.tool_calls or []:
        arguments, cut = cut_value(call.arguments)
        entry: JSONObject = {"toolCallId": call.tool_call_id, "toolName": call.tool_name, "arguments": arguments}
        calls.append({**entry, "cut": cut} if cut else entry)
    return {"toolCalls": calls}
