"""Model and tool calls as histories hold them: what follows from the session, the run and the step is left out.

Whoever reads one has all of it again. The ids are most of what a call says, and two calls a step are most of a history.
"""

from __future__ import annotations

from typing import Any, cast

from perdure.uap.ids import answer_id, checkpoint_id, results_id, root_node_id
from perdure.upp.tools import ToolEffect

_EFFECT = str(ToolEffect.AT_MOST_ONCE)
_TIMEOUT_S = 3600.0
_PLACE = ("id", "run", "step", "node", "start")
"""Of a checkpoint's record: what its call says."""


def shorten_model_call(call: dict[str, Any]) -> dict[str, Any]:
    """A `GenerateInput` as it is written."""
    _leave_out(call, _derived_of_model_call(call))
    if call.get("pending"):
        call["pending"] = [_shortened(item, call) for item in call["pending"]]
    return call


def lengthen_model_call(call: dict[str, Any]) -> dict[str, Any]:
    """A `GenerateInput` as it was; one that was written whole stays what it is, and so does what is none."""
    if not {"session", "run", "step", "start"} <= call.keys():
        return call
    call = {**_derived_of_model_call(call), **call}
    if call.get("pending"):
        call["pending"] = [_lengthened(item, call) for item in call["pending"]]
    return call


def shorten_tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """A `CallToolInput` as it is written."""
    _leave_out(call, _derived_of_tool_call(call))
    return call


def lengthen_tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """A `CallToolInput` as it was; one that was written whole stays what it is, and so does what is none."""
    return call if not {"run", "step"} <= call.keys() else {**_derived_of_tool_call(call), **call}


def _derived_of_model_call(call: dict[str, Any]) -> dict[str, Any]:
    run, step = call["run"], call["step"]
    return {"node": root_node_id(call["session"]), "message": answer_id(run, step), "results": results_id(run, step)}


def _derived_of_tool_call(call: dict[str, Any]) -> dict[str, Any]:
    return {"message": answer_id(call["run"], call["step"]), "effect": _EFFECT, "timeout_s": _TIMEOUT_S}


def _leave_out(call: dict[str, Any], derived: dict[str, Any]) -> None:
    for name, value in derived.items():
        if call[name] == value:
            del call[name]


def _shortened(item: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    """The record of the step before, if it is one of an answer and its results: "c" in the place of "r"."""
    record = item.get("r")
    if item.keys() != {"k", "r"} or not isinstance(record, dict):
        return item
    rest = cast("dict[str, Any]", record)
    messages = rest.get("messages")
    if not isinstance(messages, list) or not messages:
        return item
    hashes = [message.get("sha256") for message in cast("list[dict[str, Any]]", messages)]
    short = {**{name: value for name, value in rest.items() if name not in _PLACE}, "messages": hashes}
    longer = _lengthened({"k": item["k"], "c": short}, call)
    return {"k": item["k"], "c": short} if longer["r"] == record else item


def _lengthened(item: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    if item.keys() != {"k", "c"}:
        return item
    run, step = call["run"], call["step"] - 1
    place = dict(zip(_PLACE, (checkpoint_id(run, step), run, step, _node(call), call["start"]), strict=True))
    ids = (answer_id(run, step), results_id(run, step))
    messages = [{"id": ident, "sha256": sha256} for ident, sha256 in zip(ids, item["c"]["messages"], strict=False)]
    return {"k": item["k"], "r": {**place, **item["c"], "messages": messages}}


def _node(call: dict[str, Any]) -> str:
    return call["node"] if "node" in call else root_node_id(call["session"])
