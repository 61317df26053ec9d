"""Contracts to payloads and back."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from cattrs.errors import ClassValidationError
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.converter import DefaultPayloadConverter

from perdure.activities import contracts
from perdure.activities.contracts import CallToolInput, Carried, GenerateResult, RecordResult, RunFrame, SessionInput
from perdure.activities.convert import PerdurePayloadConverter, converter, data_converter
from perdure.uap.spec import AgentSpec, Limits, ModelSpec, PaidSpec, StrategySpec, ToolSpec
from perdure.uap.stage_place import StagePlace
from tests.unit.store.strategies import joined
from tests.unit.upp.strategies import json_objects, json_values, texts

CONTRACTS = [
    kind
    for _, kind in inspect.getmembers(contracts, dataclasses.is_dataclass)
    if isinstance(kind, type) and kind.__module__.startswith(contracts.__name__)
]
PAYLOADS = PerdurePayloadConverter()

st.register_type_strategy(StrategySpec, st.builds(StrategySpec, texts().map(joined), json_objects().map(joined)))
st.register_type_strategy(
    Limits, st.builds(Limits, st.integers(1, 9999), st.integers(1, 10**9), st.floats(1, 1e6), st.floats(1, 1e6))
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "str": texts(),
    "str | None": st.none() | texts(),
    "int": st.integers(),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "float | None": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "bool | None": st.none() | st.booleans(),
    "Any": json_values(),
    "dict[str, Any]": json_objects(),
    "dict[str, Any] | None": st.none() | json_objects(),
    "list[dict[str, Any]]": st.lists(json_objects(), max_size=2),
    "list[dict[str, Any]] | None": st.none() | st.lists(json_objects(), max_size=2),
    "list[str]": st.lists(texts(), max_size=2),
    "dict[str, str]": st.dictionaries(texts(5), texts(), max_size=2),
    "dict[str, dict[str, Any]]": st.dictionaries(texts(5), json_objects(), max_size=2),
    "list[int] | None": st.none() | st.lists(st.integers(), max_size=2),
}


def contract(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Contracts of a kind, each field at its default or at something else; a new type of field needs a line above."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in dataclasses.fields(kind):
        name = str(field.type)
        drawn = FIELDS[name].map(joined) if name in FIELDS else _nested(name)
        given_always = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        (required if given_always else optional)[field.name] = drawn
    build = cast("Callable[..., Any]", kind)
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: build(**values))


def _nested(name: str) -> st.SearchStrategy[Any]:
    base = name.removesuffix(" | None")
    inside = [AgentSpec, ToolSpec, StrategySpec, Limits, StagePlace, ModelSpec, PaidSpec]
    kinds: dict[str, Any] = {kind.__name__: kind for kind in [*CONTRACTS, *inside]}
    if base.startswith("list["):
        return st.lists(_nested(base[5:-1]), max_size=2)
    if base.startswith("dict[str, "):
        return st.dictionaries(texts(5).map(joined), _nested(base.removeprefix("dict[str, ")[:-1]), max_size=2)
    inner = st.deferred(lambda: contract(kinds[base]))
    return st.none() | inner if name != base else inner


def travelled(value: object, kind: type[Any]) -> Any:
    """What comes out at the other end of the wire."""
    payload = PAYLOADS.to_payload(value)
    return PAYLOADS.from_payload(Payload.FromString(payload.SerializeToString()), kind)


@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.__name__)
def test_a_contract_arrives_as_it_was_sent(kind: type[Any]) -> None:
    """S21: Every field, at any value, with NUL and lone surrogates in every text."""

    @given(contract(kind))
    @settings(max_examples=25)
    def holds(value: object) -> None:
        assert travelled(value, kind) == value

    holds()


@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.__name__)
def test_fields_that_are_not_known_are_passed_over(kind: type[Any]) -> None:
    """A newer worker may have added some to a history that this one replays."""

    @given(contract(kind))
    @settings(max_examples=5)
    def holds(value: object) -> None:
        document = json.loads(PAYLOADS.to_payload(value).data)
        payload = Payload(
            metadata={"encoding": b"json/plain"}, data=json.dumps({**document, "addedLater": {"a": [1]}}).encode()
        )
        assert PAYLOADS.from_payload(payload, kind) == value

    holds()


@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.__name__)
def test_a_contract_cannot_be_changed(kind: type[Any]) -> None:
    """What crossed the border is a record."""
    value: Any = object.__new__(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(kind)[0].name, "another")


def test_defaults_are_not_written() -> None:
    """So that a step costs little history, and readers of older histories see the same."""
    assert PAYLOADS.to_payload(SessionInput("t", "s", "a")).data == b'{"tenant":"t","session":"s","agent":"a"}'
    assert PAYLOADS.to_payload(GenerateResult()).data == b"{}"
    assert travelled(GenerateResult(), GenerateResult) == GenerateResult()


def test_a_nested_contract_is_built_again() -> None:
    """What a session carries into its next execution comes back with its types."""
    frame = RunFrame("r", "n", 0, 1, "m", "sha", {"type": "user"}, AgentSpec("a", "i", tools=[ToolSpec("t")]))
    carried = SessionInput("t", "s", "a", Carried(paused=True, frame=frame, started=[0]))
    read = travelled(carried, SessionInput)
    assert read == carried
    assert isinstance(read.carried.frame.spec.tools[0], ToolSpec)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udfff\ud800", "\x00", "\U0001f378"])
def test_a_history_holds_only_valid_text(text: str) -> None:
    """Lone surrogates are written with escapes; everything else as UTF-8."""
    data = PAYLOADS.to_payload(RecordResult(kind=text)).data
    data.decode("utf-8")
    assert travelled(RecordResult(kind=text), RecordResult).kind == text


def test_what_json_cannot_hold_is_refused() -> None:
    """Never written as NaN, which other readers refuse."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        PAYLOADS.to_payload(RecordResult(kind="won", pending=[{"x": float("nan")}]))


def test_a_field_that_is_required_is_required() -> None:
    """A payload of another contract does not pass for this one."""
    payload = Payload(metadata={"encoding": b"json/plain"}, data=b'{"tenant":"t"}')
    with pytest.raises(ClassValidationError):
        PAYLOADS.from_payload(payload, CallToolInput)


VALUES: list[Any] = [None, 7, 0.5, "text", [1, {"a": None}], {"a": [True]}, b"\x00\xff"]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_everything_else_is_as_temporal_has_it(value: object) -> None:
    """A signal sent by another client, or by hand, is read by its own encoding."""
    payload = PAYLOADS.to_payload(value)
    assert payload == DefaultPayloadConverter().to_payload(value)
    assert PAYLOADS.from_payload(payload) == value


def test_the_data_converter_is_ours() -> None:
    """What clients and workers are connected with."""
    assert data_converter.payload_converter_class is PerdurePayloadConverter
    assert converter.unstructure(Carried()) == {}
