"""The types of options have the keywords of the functions that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields

import pytest

from perdure import agent, session
from perdure.execution import loop, plan, react, staged
from perdure.middleware import logging
from perdure.types import (
    Agent,
    AgentOptions,
    LoggingOptions,
    LoopOptions,
    PlanOptions,
    ReactOptions,
    SessionOptions,
    ToToolOptions,
)
from perdure.uap.option_types import StagedOptions

TAKEN_BY: list[tuple[type, Callable[..., object]]] = [
    (AgentOptions, agent),
    (ToToolOptions, Agent.to_tool),
    (LoopOptions, loop),
    (ReactOptions, react),
    (PlanOptions, plan),
    (StagedOptions, staged),
    (LoggingOptions, logging),
]


def keywords(function: Callable[..., object]) -> dict[str, str]:
    """The keyword parameters of a function with their annotations as written."""
    parameters = inspect.signature(function).parameters.values()
    return {item.name: str(item.annotation) for item in parameters if item.kind is item.KEYWORD_ONLY}


def written_types(options: type) -> dict[str, str]:
    """The keys of a TypedDict with their annotations as written."""
    return {name: written.__forward_arg__ for name, written in inspect.get_annotations(options).items()}


@pytest.mark.parametrize(("options", "function"), TAKEN_BY, ids=lambda item: item.__name__)
def test_keys_are_the_keywords_with_their_types(options: type, function: Callable[..., object]) -> None:
    assert written_types(options) == keywords(function)


def test_fields_of_session_options_are_the_keywords_of_session() -> None:
    assert {item.name for item in fields(SessionOptions)} == keywords(session).keys()


def test_every_option_can_be_left_out() -> None:
    assert [options.__name__ for options, _ in TAKEN_BY if getattr(options, "__required_keys__")] == []  # noqa: B009 - a TypedDict has it
