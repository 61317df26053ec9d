"""Tools as values."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject
from perdure.upp.tools import Tool, ToolEffect, approval_name, client_tool, effect_name

ANY: JSONObject = {"type": "object"}


def make(**options: Any) -> Tool:
    given: dict[str, Any] = {"name": "t", "description": "", "parameters": ANY, "run": dict}
    return Tool(**(given | options))


@given(st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True))
def test_a_name_that_providers_accept_is_accepted(name: str) -> None:
    """Letters, digits, _ and -, up to 64."""
    assert make(name=name).name == name


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "é", "a.b", "a\n", "a\x00", "\ud83c", "a/b"])
def test_a_name_that_some_provider_refuses_is_refused(name: str) -> None:
    """The mistake shows at definition, not at the first model call."""
    with pytest.raises(InvalidInput, match="tool name"):
        make(name=name)


def test_a_tool_runs_at_most_once_unless_it_says_more() -> None:
    """The default effect is the careful one."""
    assert make().effect is ToolEffect.AT_MOST_ONCE


def test_an_effect_may_be_given_by_name() -> None:
    """A string becomes the constant."""
    assert make(effect="once").effect is ToolEffect.ONCE


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("effect", "twice", "effect 'twice' must be one of none, idempotent, at_most_once, once"),
        ("timeout", timedelta(0), "timeout"),
        ("timeout", timedelta(seconds=-1), "timeout"),
        ("timeout", 30, "must be a timedelta"),
        ("parameters", {"type": "array"}, "JSON Schema of type 'object'"),
        ("parameters", {"type": "object", "default": math.nan}, r"parameters must be JSON: \$\.default"),
        ("metadata", {"openai": {1: 2}}, r"metadata must be JSON: \$\.openai"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(option: str, value: object, message: str) -> None:
    """Each mistake names the tool and the option."""
    with pytest.raises(InvalidInput, match=message):
        make(**{option: value})


def test_the_schema_is_copied() -> None:
    """A schema that is changed afterwards does not change the tool."""
    schema: JSONObject = {"type": "object"}
    tool = make(parameters=schema)
    schema["type"] = "array"
    assert tool.parameters == {"type": "object"}


def test_tools_are_told_apart_by_identity() -> None:
    """Tools can be keys, though their schema is a dict."""
    one, other = make(), make()
    assert {one: 1}[one] == 1
    assert one != other


WRONG_APPROVALS: list[tuple[str, dict[str, Any]]] = [
    ("a word", {"approval": "person"}),
    ("a flag", {"approval": True}),
    ("a timeout alone", {"approval_timeout": timedelta(seconds=1)}),
    ("no time", {"approval": "human", "approval_timeout": timedelta(0)}),
    ("a number", {"approval": "human", "approval_timeout": 3}),
    ("a client's", {"approval": "human", "run": None}),
]


@pytest.mark.parametrize(
    "options", [options for _, options in WRONG_APPROVALS], ids=[name for name, _ in WRONG_APPROVALS]
)
def test_an_approval_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    """A tool that seems to be guarded and is not would be worse than none."""
    with pytest.raises(InvalidInput, match="approval"):
        make(**options)


def test_specs_name_who_approves_and_what_runs_where() -> None:
    """Nobody, a person, a function; here, or at the client's."""
    assert [approval_name(make(approval=approval)) for approval in (None, "human", bool)] == ["", "human", "predicate"]
    assert effect_name(make(effect="once")) == "once"
    mine = client_tool("pick", "Pick one.", timeout=timedelta(days=3))
    assert (effect_name(mine), mine.run, mine.parameters) == ("client", None, {"type": "object", "properties": {}})


WRONG_SHORT: list[tuple[str, dict[str, Any]]] = [
    ("too long", {"timeout": timedelta(seconds=11)}),
    ("a person's", {"approval": "human"}),
    ("a predicate's", {"approval": bool}),
    ("a client's", {"run": None}),
]


@pytest.mark.parametrize("options", [options for _, options in WRONG_SHORT], ids=[name for name, _ in WRONG_SHORT])
def test_a_short_tool_that_could_take_long_is_refused(options: dict[str, Any]) -> None:
    """Its run would hear of nothing meanwhile."""
    with pytest.raises(InvalidInput, match="short"):
        make(short=True, **options)


def test_a_short_tool_has_a_timeout() -> None:
    """Ten seconds, where it does not say less."""
    assert make(short=True).timeout == timedelta(seconds=10)
    assert make(short=True, timeout=timedelta(seconds=2)).timeout == timedelta(seconds=2)
    assert make().timeout is None
