"""What the model call of a step leaves out of a history, and that whoever reads them has all of it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from perdure.activities.contracts import GenerateInput
from perdure.activities.convert import PerdurePayloadConverter, converter
from perdure.uap.ids import answer_id, checkpoint_id, derive_id, results_id, root_node_id, scaffold_id

PAYLOADS = PerdurePayloadConverter()
RUN, SESSION = derive_id("run"), derive_id("session")
HASHES = ["a" * 64, "b" * 64]


def record(step: int, **changed: Any) -> dict[str, Any]:
    """The record of a step that ended, as the workflow makes it."""
    ids = (answer_id(RUN, step), results_id(RUN, step))
    return {
        "id": checkpoint_id(RUN, step),
        "run": RUN,
        "step": step,
        "node": root_node_id(SESSION),
        "position": 3,
        "start": 0,
        "at": "2026-01-02T03:04:05.678Z",
        "messages": [{"id": ident, "sha256": sha256} for ident, sha256 in zip(ids, HASHES, strict=True)],
        "metadata": {},
        "done": False,
        **changed,
    }


def model_call(step: int, *pending: dict[str, Any], **changed: Any) -> GenerateInput:
    """The model call of a step."""
    call = GenerateInput(
        "default", SESSION, RUN, "agent", root_node_id(SESSION), 0, 3, 0, step, answer_id(RUN, step), results_id(RUN, step),
        pending=list(pending),
    )  # fmt: skip
    return dataclasses.replace(call, **changed)


def written(call: GenerateInput) -> dict[str, Any]:
    """The call as a history holds it, from which it can be read."""
    payload = PAYLOADS.to_payload(call)
    assert PAYLOADS.from_payload(payload, type(call)) == call
    return json.loads(payload.data)


def test_what_follows_is_left_out() -> None:
    model = written(model_call(2, {"k": "checkpoint", "r": record(1)}, {"k": "step", "step": 2}))
    assert not {"node", "message", "results"} & model.keys()
    short = model["pending"][0]
    assert short.keys() == {"k", "c"}
    assert short["c"]["messages"] == HASHES
    assert short["c"].keys() == {"at", "messages"}
    telling = written(model_call(2, {"k": "checkpoint", "r": record(1, metadata={"mine": 1}, done=True)}))
    assert telling["pending"][0]["c"] == {**short["c"], "metadata": {"mine": 1}, "done": True}


OTHER = derive_id("other")
OWN = {"message": scaffold_id(RUN, 2), "results": results_id(RUN, 2, 1)}
WHOLE = {
    "on a branch, and the strategy's own": model_call(2, node=OTHER, **OWN),
    "record of another run": model_call(2, {"k": "checkpoint", "r": record(1, run=OTHER)}),
    "record of another step": model_call(2, {"k": "checkpoint", "r": record(7)}),
    "record of another branch": model_call(2, {"k": "checkpoint", "r": record(1, node=OTHER)}),
    "another message": model_call(2, {"k": "checkpoint", "r": record(1, messages=[{"id": OTHER, "sha256": "c"}])}),
    "message without a hash": model_call(2, {"k": "checkpoint", "r": record(1, messages=[{"id": answer_id(RUN, 1)}])}),
    "no message": model_call(2, {"k": "checkpoint", "r": record(1, messages=[])}),
    "no record": model_call(2, {"k": "checkpoint", "r": {"id": "only"}}),
    "three messages": model_call(2, {"k": "checkpoint", "r": record(1, messages=[{"id": OTHER, "sha256": "c"}] * 3)}),
    "record of another place": model_call(2, {"k": "checkpoint", "r": record(1, position=2)}),
}


@pytest.mark.parametrize("call", WHOLE.values(), ids=WHOLE)
def test_what_does_not_follow_is_written(call: GenerateInput) -> None:
    """A branch's node, a strategy's own messages, a record of another run or step, other settings of a tool."""
    again = written(call)
    whole = json.loads(json.dumps(dataclasses.asdict(call)))
    for name in ("node", "message", "results"):
        assert again.get(name, whole.get(name)) == whole.get(name)
    assert again.get("pending", []) == whole["pending"]


def test_a_call_that_an_older_version_wrote_is_read() -> None:
    """It says everything."""
    call = model_call(2, {"k": "checkpoint", "r": record(1)})
    assert converter.structure(dataclasses.asdict(call), GenerateInput) == call
