"""Noting signals: never an error, whatever they hold."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from perdure.activities.contracts import ANSWER, CANCEL, PAUSE, RESUME, WAKE, Carried
from perdure.activities.convert import PerdurePayloadConverter
from perdure.workflows.signals import Control, SignalBox
from tests.unit.upp.strategies import json_objects, json_values, texts

NAMES = [WAKE, PAUSE, RESUME, CANCEL, ANSWER]
CONTROLS = [PAUSE, RESUME, CANCEL]


@pytest.fixture(autouse=True)
def in_a_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the signal box asks of Temporal is the converter and the log; a workflow is not needed for them."""
    monkeypatch.setattr(workflow, "payload_converter", PerdurePayloadConverter)
    monkeypatch.setattr(workflow, "logger", logging.getLogger(__name__))


def raw(value: object) -> RawValue:
    """A value as a client sends it."""
    return RawValue(PerdurePayloadConverter().to_payload(value))


def noted(*signals: tuple[str, object], carried: Carried | None = None) -> SignalBox:
    """A box in which these were noted, in order."""
    box = SignalBox(carried or Carried())
    for name, value in signals:
        box.note(name, [raw(value)])
    return box


def as_json(value: object) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode()))


deep = st.integers(1, 3).map(
    lambda n: RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"[" * 10 ** (n + 2)))
)
payloads = st.builds(
    Payload,
    metadata=st.dictionaries(
        st.sampled_from(["encoding", "messageType", "x"]),
        st.binary(max_size=8) | st.sampled_from([b"json/plain", b"binary/null", b"binary/plain", b"json/protobuf"]),
        max_size=3,
    ),
    data=st.binary(max_size=40)
    | st.sampled_from([b'{"id":NaN}', b"{}", b"nul", b"\xff", b'{"id":"a"} x', b"9" * 5000]),
)
objects = json_objects() | st.fixed_dictionaries(
    {}, optional={"id": texts() | json_values(), "run": texts() | json_values(), "wait": texts() | json_values()}
)
values = payloads.map(RawValue) | (json_values() | objects).map(as_json) | deep
names = st.sampled_from(NAMES) | texts().map(lambda text: text.encode("utf-8", "replace").decode())


@given(st.lists(st.tuples(names, st.lists(values, max_size=2)), max_size=8))
def test_noting_never_raises(signals: Sequence[tuple[str, Sequence[RawValue]]]) -> None:
    """An exception in a handler would end the workflow; each signal is counted, and noted as something."""
    box = SignalBox(Carried())
    for count, (name, arguments) in enumerate(signals, start=1):
        before = len(box.controls) + len(box.unreadable) + len(box.answered)
        box.note(name, arguments)
        assert box.noted == count
        assert len(box.controls) + len(box.unreadable) + len(box.answered) - before in (0, 1)
    assert all(isinstance(control.id, str | None) and isinstance(control.run, str | None) for control in box.controls)
    assert all(len(text) <= 80 for _, text in box.unreadable)


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_are_noted_in_order(name: str) -> None:
    """With the id and the run they came with."""
    box = noted((name, {"id": "a", "run": "r"}), (name, {"id": "b"}), (name, {}), (name, None))
    assert list(box.controls) == [Control(name, "a", "r"), Control(name, "b"), Control(name), Control(name)]
    assert box.waiting


def test_a_control_without_an_argument_is_whole() -> None:
    """As the Temporal command line sends it."""
    box = SignalBox(Carried())
    box.note(PAUSE, [])
    assert list(box.controls) == [Control(PAUSE)]


def test_a_control_is_taken_once() -> None:
    """A client that repeats itself, and an execution that went on, know the id."""
    box = noted((PAUSE, {"id": "a"}), (PAUSE, {"id": "a"}), (CANCEL, {"id": "b"}), carried=Carried(seen=["b"]))
    assert list(box.controls) == [Control(PAUSE, "a")]
    assert box.seen == ["b", "a"]


def test_controls_without_an_id_are_all_taken() -> None:
    """Nobody can say whether they are the same."""
    assert len(noted((PAUSE, {}), (PAUSE, {})).controls) == 2


def test_the_ids_that_are_remembered_are_bounded() -> None:
    """They travel into the next execution."""
    box = noted(*((PAUSE, {"id": str(number)}) for number in range(500)))
    assert len(box.seen) <= 201
    assert box.seen[-1] == "499"
    assert len(box.controls) == 500


def test_answers_are_remembered() -> None:
    """Also those that were carried here."""
    box = noted((ANSWER, {"wait": "w"}), carried=Carried(answered=["v"]))
    assert box.answered == ["v", "w"]
    assert not box.waiting


def test_a_wake_is_only_counted() -> None:
    """It says nothing; what it holds is not read."""
    box = SignalBox(Carried())
    box.note(WAKE, [RawValue(Payload(data=b"\xff"))])
    assert box.noted == 1
    assert not box.waiting


UNREADABLE: list[tuple[str, Any, str]] = [
    (PAUSE, 7, "pause: a JSON object is needed, not int"),
    (RESUME, [1], "resume: a JSON object is needed, not list"),
    (CANCEL, {"id": 1}, "cancel: 'id' and 'run' must be strings"),
    (CANCEL, {"run": ["r"]}, "cancel: 'id' and 'run' must be strings"),
    (ANSWER, {}, "answer: 'wait' must be a wait's id"),
    (ANSWER, {"wait": 3}, "answer: 'wait' must be a wait's id"),
    ("paus", {}, "paus: no such signal; there are wake, steer, pause, resume, cancel and answer"),
    (PAUSE, b"\x00\xff", "pause: a JSON object is needed, not bytes"),
]


@pytest.mark.parametrize(("name", "value", "text"), UNREADABLE, ids=[text for _, _, text in UNREADABLE])
def test_what_cannot_be_read_is_kept_for_an_event(name: str, value: Any, text: str) -> None:
    """It says which signal, and what is wrong with it."""
    box = noted((name, value))
    assert [said for _, said in box.unreadable] == [text[:80]]
    assert box.waiting
    assert not box.controls


def test_garbage_without_end_is_bounded() -> None:
    """What does not fit is still in the log of the worker, and counted."""
    box = noted(*(("nonsense", number) for number in range(200)))
    assert len(box.unreadable) == 50
    assert box.noted == 200


def test_the_answers_that_are_remembered_are_bounded() -> None:
    """A wait that is answered again and again, as the sweep does it, is one wait."""
    assert len(noted(*((ANSWER, {"wait": "w"}) for _ in range(500))).answered) == 1
