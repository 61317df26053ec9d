"""Tools that models make up: their names go back as every vendor accepts them, the same for a call and its result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorRequest
from perdure.upp.providers._tool_calls import sent_name
from perdure.upp.providers.anthropic.request import build_body as anthropic_body
from perdure.upp.providers.google.contents import contents_of
from perdure.upp.providers.openai_completions import OPENAI as OPENAI_COMPLETIONS
from perdure.upp.providers.openai_completions.request import to_body as completions_body
from perdure.upp.providers.openai_responses import OPENAI as OPENAI_RESPONSES
from perdure.upp.providers.openai_responses.request import build_body as responses_body
from perdure.upp.providers.openai_responses.response import read_response
from perdure.upp.tool_call import ToolCall, ToolResult

MADE_UP = [
    ("functions.search", "functions_search"),
    ("bad name!", "bad_name_"),
    ("suche_größe", "suche_gr__e"),
    ("", "_"),
    ("x" * 100, "x" * 64),
    ("get_weather-2", "get_weather-2"),
]


@pytest.mark.parametrize(("name", "sent"), MADE_UP)
def test_a_name_is_sent_as_every_vendor_takes_it(name: str, sent: str) -> None:
    assert sent_name(name) == sent


@given(st.text())
def test_whatever_the_name_the_one_sent_is_good_and_stays_as_it_is(name: str) -> None:
    sent = sent_name(name)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)
    assert sent_name(sent) == sent


def conversation(call: ToolCall, metadata: dict[str, Any] | None = None) -> list[Message]:
    said = AssistantMessage([], [call], metadata=metadata)
    return [UserMessage("hi"), said, ToolResultMessage([ToolResult("call_1", "no such tool", is_error=True)])]


def by_anthropic(messages: list[Message]) -> list[Any]:
    body: Any = anthropic_body("claude-sonnet-4-6", LLMRequest(messages), None, stream=False)
    return [body["messages"][1]["content"][0]["name"]]


def by_completions(messages: list[Message]) -> list[Any]:
    body: Any = completions_body(LLMRequest(messages), "gpt-x", OPENAI_COMPLETIONS, stream=False)
    return [body["messages"][1]["tool_calls"][0]["function"]["name"]]


def by_responses(messages: list[Message]) -> list[Any]:
    body: Any = responses_body(LLMRequest(messages), "gpt-5", OPENAI_RESPONSES, stream=False)
    return [body["input"][1]["name"]]


def by_google(messages: list[Message]) -> list[Any]:
    contents: Any = contents_of(messages, True)
    return [contents[1]["parts"][0]["functionCall"]["name"], contents[2]["parts"][0]["functionResponse"]["name"]]


@pytest.mark.parametrize("names_of", [by_anthropic, by_completions, by_responses, by_google])
@pytest.mark.parametrize(("name", "sent"), MADE_UP)
def test_a_call_of_a_made_up_tool_goes_back(
    names_of: Callable[[list[Message]], list[Any]], name: str, sent: str
) -> None:
    assert set(names_of(conversation(ToolCall("call_1", name, {})))) == {sent}


def test_anthropics_own_block_goes_back_under_a_good_name() -> None:
    block: Any = {"type": "tool_use", "id": "call_1", "name": "functions.search", "input": {}}
    message = conversation(ToolCall("call_1", "functions.search", {}), {"anthropic": {"content": [block]}})
    assert by_anthropic(message) == ["functions_search"]


def test_an_item_of_the_responses_api_goes_back_under_a_good_name_and_otherwise_as_it_came() -> None:
    item: JSONObject = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "functions.search",
        "arguments": "{ }",
        "status": "completed",
    }
    sent = VendorRequest("openai", "https://host/responses", {}, ProviderConfig())
    answer = read_response({"id": "resp_1", "output": [item], "status": "completed"}, LLMRequest([]), sent)
    messages = [UserMessage("hi"), answer.message]
    body: Any = responses_body(LLMRequest(messages), "gpt-5", OPENAI_RESPONSES, stream=False)
    assert body["input"][1] == {**item, "name": "functions_search"}


@pytest.mark.parametrize(
    ("recorded", "name", "sent"),
    [
        ("default_api.search", "default_api.search", "default_api.search"),
        ("default_api.search", "my.search", "my_search"),
        (None, "my.search", "my_search"),
    ],
    ids=["as it came", "renamed since", "nothing recorded"],
)
def test_gemini_gets_its_own_call_back_as_it_came_and_the_result_under_the_same_name(
    recorded: str | None, name: str, sent: str
) -> None:
    part: Any = {"functionCall": {"name": recorded, "args": {}}}
    metadata = {"google": {"functionCallParts": [part]}} if recorded else None
    assert by_google(conversation(ToolCall("call_1", name, {}), metadata)) == [sent, sent]
