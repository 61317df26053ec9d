"""Model calls as histories hold them: what follows from the session, the run and the step is left out.

Whoever reads one has all of it again. The ids are most of what a call says. Tool calls are written whole: a worker of an older
version that cannot read one would use up its first attempt, after which nobody knows whether the tool was run.
"""

from __future__ import annotations

from typing import Any, cast

from perdure.uap.ids import answer_id, checkpoint_id, results_id, root_node_id

_PLACE = ("id", "run", "step", "node", "start", "position")
"""Of a checkpoint's record: what its call says."""


def _usual() -> dict[str, Any]:
    """What most records say."""
    return {"metadata": {}, "done": False}


def shorten_model_call(call: dict[str, Any]) -> dict[str, Any]:
    """A `GenerateInput` as it is written."""
    _leave_out(call, _derived_of_model_call(call))
    if call.get("pending"):
        call["pending"] = [_shortened(item, call) for item in call["pending"]]
    return call


def lengthen_model_call(call: dict[str, Any]) -> dict[str, Any]:
    """A `GenerateInput` as it was; one that was written whole stays what it is, and so does what is none."""
    if not {"session", "run", "step", "start", "position"} <= call.keys():
        return call
    call = {**_derived_of_model_call(call), **call}
    if call.get("pending"):
        call["pending"] = [_lengthened(item, call) for item in call["pending"]]
    return call


def _derived_of_model_call(call: dict[str, Any]) -> dict[str, Any]:
    run, step = call["run"], call["step"]
    return {"node": root_node_id(call["session"]), "message": answer_id(run, step), "results": results_id(run, step)}


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
    usual = _usual()
    kept = {name: value for name, value in rest.items() if name not in _PLACE and usual.get(name, ...) != value}
    short = {**kept, "messages": hashes}
    longer = _lengthened({"k": item["k"], "c": short}, call)
    return {"k": item["k"], "c": short} if longer["r"] == record else item


def _lengthened(item: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    if item.keys() != {"k", "c"}:
        return item
    run, step = call["run"], call["step"] - 1
    told = (checkpoint_id(run, step), run, step, _node(call), call["start"], call["position"])
    place = {**_usual(), **dict(zip(_PLACE, told, strict=True))}
    ids = (answer_id(run, step), results_id(run, step))
    messages = [{"id": ident, "sha256": sha256} for ident, sha256 in zip(ids, item["c"]["messages"], strict=False)]
    return {"k": item["k"], "r": {**place, **item["c"], "messages": messages}}


def _node(call: dict[str, Any]) -> str:
    return call["node"] if "node" in call else root_node_id(call["session"])
