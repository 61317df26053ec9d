"""The options of a submit: read back as they were, refused by name where they cannot be used."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONValue, dumps, loads
from tests.unit.upp.strategies import json_objects, messages, texts

client_tools = st.fixed_dictionaries(
    {"name": texts().filter(bool)}, optional={"description": texts(), "parameters": json_objects()}
)
options = st.builds(
    RunOptions,
    instructions=st.none() | texts(),
    params=json_objects(),
    tool_choice=st.none() | texts() | json_objects(),
    response_format=st.none() | json_objects(),
    modalities=st.none() | st.lists(texts(), max_size=2),
    client_tools=st.lists(client_tools, max_size=2),
    max_steps=st.none() | st.integers(1, 10**6),
    max_cost=st.none() | st.decimals("0.000001", 10**6, places=6),
    max_total_tokens=st.none() | st.integers(1, 10**12),
    max_duration=st.none() | st.timedeltas(timedelta(milliseconds=1), timedelta(days=3650)),
    history=st.none() | st.lists(messages.map(lambda message: message.to_json()), max_size=2),
)


@given(options)
def test_options_survive_json(given_options: RunOptions) -> None:
    """What was submitted is what the run sees."""
    assert RunOptions.from_json(loads(dumps(given_options.to_json()))) == given_options


def test_defaults_are_not_written() -> None:
    """Most inputs have no options, and store none."""
    assert RunOptions().to_json() == {}
    assert RunOptions.from_json({}) == RunOptions()


def test_an_empty_history_is_a_history() -> None:
    """A run that is to see nothing of the thread is not a run that sees all of it."""
    assert RunOptions.from_json(RunOptions(history=[]).to_json()).history == []


@pytest.mark.parametrize("value", [None, [], "max_steps", 7, True])
def test_options_that_are_no_object_are_refused(value: JSONValue) -> None:
    """The message says what is needed."""
    with pytest.raises(InvalidInput, match="must be a JSON object"):
        RunOptions.from_json(value)


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    """A misspelt option is not silently without effect."""
    with pytest.raises(InvalidInput, match=r"unknown run options maxSteps, zzz; known are client_tools, .*max_steps"):
        RunOptions.from_json({"zzz": 1, "maxSteps": 2})


@pytest.mark.parametrize("steps", [0, -1, True, False])
def test_max_steps_is_at_least_one(steps: int) -> None:
    """No step at all is no run."""
    with pytest.raises(InvalidInput, match="at least 1"):
        RunOptions(max_steps=steps)


@pytest.mark.parametrize("given_cost", ["0.50", 1, Decimal("0.0000001")])
def test_a_cost_is_a_decimal_however_it_is_written(given_cost: Any) -> None:
    """From JSON it comes as text, and goes back as text without an exponent."""
    made = RunOptions.from_json({"max_cost": given_cost})
    assert made.max_cost == Decimal(given_cost)
    assert made.to_json() == {"max_cost": format(Decimal(given_cost), "f")}


@pytest.mark.parametrize(("given_time", "seconds"), [(90, 90), (0.5, 0.5), (timedelta(minutes=2), 120)])
def test_a_time_is_seconds_however_it_is_written(given_time: Any, seconds: float) -> None:
    """From JSON it comes as a number, and goes back as one."""
    made = RunOptions.from_json({"max_duration": given_time})
    assert made.max_duration == timedelta(seconds=seconds)
    assert made.to_json() == {"max_duration": seconds}


BAD: list[dict[str, Any]] = [
    {"max_total_tokens": 0},
    {"max_duration": 0},
    {"max_duration": -1},
    {"max_duration": "60"},
    {"max_duration": True},
    {"max_duration": 1e300},
    {"max_duration": float("nan")},
    {"max_steps": "3"},
    {"max_steps": 1.5},
    {"max_steps": []},
    {"max_cost": 0},
    {"max_cost": "-1"},
    {"max_cost": "much"},
    {"max_cost": "NaN"},
    {"max_cost": "Infinity"},
    {"max_cost": True},
    {"max_cost": 0.1},
    {"client_tools": ["pick_colour"]},
    {"client_tools": {"name": "pick_colour"}},
    {"client_tools": None},
    {"client_tools": [{}]},
    {"client_tools": [{"name": ""}]},
    {"client_tools": [{"name": 7}]},
    {"instructions": 7},
    {"params": [1]},
    {"modalities": "text"},
    {"history": "all"},
    {"history": [7]},
]


@pytest.mark.parametrize("data", BAD, ids=str)
def test_an_option_of_another_type_is_refused(data: dict[str, Any]) -> None:
    """Options come from outside as JSON: what cannot be used is the caller's error, not a crash in a worker."""
    with pytest.raises(InvalidInput):
        RunOptions.from_json(data)
