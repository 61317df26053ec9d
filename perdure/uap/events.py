"""The entries of a session's event log, as the writers make them.

An entry is short-keyed JSON that one SQL function turns into rows: `s` source (run, uap or upp), `t` type, `p` step,
`a` attempt, `d` data. Data keys are the specification's. Source: UAP-1.0 section 12.2, UPP-1.2 streaming.
"""

from __future__ import annotations

from perdure.uap.cut import cut_value
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent

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


def action_data(message: AssistantMessage) -> JSONObject:
    """Data of `action`: the tool calls, long arguments as previews."""
    calls: list[JSONValue] = []
    for call in message.tool_calls or []:
        arguments, cut = cut_value(call.arguments)
        entry: JSONObject = {"toolCallId": call.tool_call_id, "toolName": call.tool_name, "arguments": arguments}
        calls.append({**entry, "cut": cut} if cut else entry)
    return {"toolCalls": calls}
