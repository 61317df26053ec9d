"""What is sent to the model."""

from __future__ import annotations

import pytest

from perdure.uap.agent import agent
from perdure.uap.options import RunOptions
from perdure.uap.request import build_request
from perdure.upp.function_tool import tool
from perdure.upp.messages import UserMessage
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


def test_params_are_merged_over_the_agents() -> None:
    """The run's go first; modalities are a parameter."""
    made = agent(model=MODEL, params={"temperature": 0, "top_p": 1})
    options = RunOptions(params={"temperature": 1}, modalities=["text"])
    assert build_request(made, options, HELLO).params == {"temperature": 1, "top_p": 1, "modalities": ["text"]}
    assert made.params == {"temperature": 0, "top_p": 1}


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
    with pytest.raises(RuntimeError, match="no function here"):
        request.tools[2].run({})


def test_the_rest_is_passed_on() -> None:
    """Choice of tools, form of the answer, conversation."""
    options = RunOptions(tool_choice={"name": "look_up"}, response_format={"type": "json_object"})
    request = build_request(agent(model=MODEL), options, HELLO)
    assert request.tool_choice == {"name": "look_up"}
    assert request.response_format == {"type": "json_object"}
    assert list(request.messages) == HELLO
