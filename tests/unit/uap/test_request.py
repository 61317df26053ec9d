"""What is sent to the model."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.uap.agent import agent
from perdure.uap.options import RunOptions
from perdure.uap.request import build_request
from perdure.upp.errors import UPPError
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.provider import ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers import google
from perdure.upp.providers.scripted import scripted


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


MODEL = scripted(["hello"])
HELLO = [UserMessage("hello")]


@pytest.mark.parametrize(
    ("system", "instructions", "sent"),
    [
        ("Be kind.", "Be brief.", "Be kind.\n\nBe brief."),
        ("Be kind.", None, "Be kind."),
        (None, "Be brief.", "Be brief."),
        ("", "", None),
        (None, None, None),
    ],
)
def test_instructions_come_below_the_agents_own(system: str | None, instructions: str | None, sent: str | None) -> None:
    """Never in its place; nothing said is nothing sent."""
    options = RunOptions(instructions=instructions)
    assert build_request(agent(model=MODEL, system=system), options, HELLO).system == sent


def test_an_input_without_content_is_not_sent() -> None:
    """A run may be asked for where nobody says anything, as behind a client's results; alone it is sent."""
    nothing, made = UserMessage([]), agent(model=MODEL)
    answer = AssistantMessage("hi")
    assert build_request(made, RunOptions(), [*HELLO, answer, nothing]).messages == [*HELLO, answer]
    assert build_request(made, RunOptions(), [nothing]).messages == [nothing]
    empty = UserMessage("")
    assert build_request(made, RunOptions(), [*HELLO, empty]).messages == [*HELLO, empty]


def test_params_are_merged_over_the_agents() -> None:
    """The run's go first."""
    made = agent(model=MODEL, params={"temperature": 0, "top_p": 1})
    options = RunOptions(params={"temperature": 1}, modalities=["text"])
    request = build_request(made, options, HELLO)
    assert (request.params, request.modalities) == ({"temperature": 1, "top_p": 1}, ["text"])
    assert made.params == {"temperature": 0, "top_p": 1}


def test_the_agents_configuration_goes_over_its_models() -> None:
    """The key of the one, the address of the other; the same in both hosts."""
    below = ProviderConfig(api_key="below", base_url="http://localhost:1/v1")
    model = ModelReference("m", MODEL.provider, config=below)
    request = build_request(agent(model=model, config=ProviderConfig(api_key="over")), RunOptions(), HELLO)
    assert request.config is not None
    assert (request.config.api_key, request.config.base_url) == ("over", "http://localhost:1/v1")


def test_client_tools_look_like_any_other() -> None:
    """The model sees name, description and schema; a tool without a schema takes anything."""
    declared = [
        {"name": "pick", "description": "Pick one.", "parameters": {"type": "object", "required": ["of"]}},
        {"name": "bare"},
    ]
    request = build_request(agent(model=MODEL, tools=[look_up]), RunOptions(client_tools=declared), HELLO)
    assert [item.name for item in request.tools] == ["look_up", "pick", "bare"]
    assert request.tools[1].description == "Pick one."
    assert request.tools[1].parameters == {"type": "object", "required": ["of"]}
    assert request.tools[2].parameters == {"type": "object", "properties": {}}
    assert [item.run for item in request.tools[1:]] == [None, None]


def test_the_rest_is_passed_on() -> None:
    """Choice of tools, form of the answer, conversation."""
    options = RunOptions(tool_choice={"name": "look_up"}, response_format={"type": "json_object"})
    request = build_request(agent(model=MODEL), options, HELLO)
    assert request.tool_choice == {"name": "look_up"}
    assert request.response_format == {"type": "json_object"}
    assert list(request.messages) == HELLO


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"name": "look_up"}, "'look_up' and 'look_up' cannot be told apart"),
        ({"name": "Look-Up"}, "'look_up' and 'Look-Up' cannot be told apart"),
        ({"name": "bad name!"}, "'bad name!' must be 1 to 64 letters"),
        (
            {"name": "pick", "parameters": {"type": "array"}},
            "'pick': parameters must be a JSON Schema of type 'object'",
        ),
        ({"name": "pick", "parameters": {"type": "object", "properties": {"a": {"type": "strnig"}}}}, "a.type"),
    ],
)
def test_a_clients_tool_that_cannot_be_sent_is_refused(declared: dict[str, Any], said: str) -> None:
    """In words that name it, before the vendor sees it."""
    with pytest.raises(InvalidInput, match=re.escape(said)):
        build_request(agent(model=MODEL, tools=[look_up]), RunOptions(client_tools=[declared]), HELLO)


def test_a_clients_tool_is_looked_at_by_the_provider() -> None:
    """As the agent's own are when it is defined."""
    constant = {"type": "object", "properties": {"kind": {"const": "a"}}}
    made = agent(model=google("gemini-3-pro"))
    with pytest.raises(UPPError, match=r"pick.*const"):
        build_request(made, RunOptions(client_tools=[{"name": "pick", "parameters": constant}]), HELLO)
