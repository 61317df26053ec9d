"""`llm()`: what it refuses at once, and what it asks of the model."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from perdure.upp.content import ImageBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.llm import llm
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.thread import Thread
from perdure.upp.tools import Tool
from tests.unit.upp.models import ABLE, FakeModel, says, tool_named

SCHEMA: JSONObject = {"type": "object"}
IMAGE = ImageBlock(Base64Source("aa=="), "image/png")
NO_IMAGES = dataclasses.replace(ABLE, image_input=False)


def unable(**missing: bool) -> FakeModel:
    return FakeModel(capabilities=LLMCapabilities(**missing))


def refused(**options: Any) -> UPPError:
    options.setdefault("model", FakeModel().reference())
    with pytest.raises(UPPError) as caught:
        llm(**options)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    return caught.value


def test_structure_needs_its_capability() -> None:
    """Refused at once, with the provider's name."""
    error = refused(model=unable(structured_output=False).reference(), structure=SCHEMA)
    assert (error.provider, "structured output" in error.message) == ("fake", True)


def test_tools_need_their_capability() -> None:
    """Refused at once, with the provider's name."""
    error = refused(model=unable(tools=False).reference(), tools=[tool_named("t")])
    assert (error.provider, "cannot call tools" in error.message) == ("fake", True)


def test_what_is_not_asked_for_needs_no_capability() -> None:
    """A provider of plain text serves plain text."""
    assert llm(model=unable(tools=False, structured_output=False).reference()).capabilities.streaming


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": "gpt"}, "model is a str"),
        ({"tools": [tool_named("t"), tool_named("u"), tool_named("t")]}, "two tools are named 't'"),
        ({"tools": [print]}, "is not a tool; make one from a typed function with @tool"),
        ({"tools": [tool_named("t")], "tool_choice": {"name": "u"}}, "tool_choice names the tool 'u'"),
        ({"tool_choice": "required"}, "needs at least one tool"),
        ({"response_format": {"type": "xml"}}, "response_format must be"),
        ({"response_format": {"type": "json_object"}, "structure": SCHEMA}, "not both"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], problem: str) -> None:
    """When the instance is made, not at its first use."""
    assert problem in refused(**options).message


def test_the_provider_checks_tools_and_structure() -> None:
    """It is shown both, and what it raises is raised."""
    model = FakeModel()
    tools = [tool_named("t")]
    llm(model=model.reference(), tools=tools, structure=SCHEMA)
    assert model.checked == [(tools, SCHEMA)]

    class Picky(FakeModel):
        def check(self, tools: Any, structure: JSONObject | None) -> None:
            raise UPPError("no such schema", ErrorCode.INVALID_REQUEST, "picky")

    assert refused(model=Picky().reference()).provider == "picky"


def test_the_instance_says_what_it_is() -> None:
    """The bound model, its capabilities, and the settings as given."""
    model, params = FakeModel(), dict[str, Any](temperature=0)
    instance = llm(model=model.reference(), system="Be brief.", params=params)
    assert instance.model is model
    assert instance.capabilities is model.capabilities
    assert (instance.system, instance.params) == ("Be brief.", params)


async def test_the_model_gets_everything_that_was_set() -> None:
    """Unchanged; parameters are not read."""
    model, tools = FakeModel(says("{}", data={})), [tool_named("t")]
    instance = llm(
        model=model.reference(),
        system=[{"type": "text", "text": "Be brief."}],
        params={"top_k": 3, "tools": [{"type": "web_search"}]},
        tools=tools,
        structure=SCHEMA,
        tool_choice="auto",
        response_format={"type": "text"},
        modalities=["text"],
        config=ProviderConfig(api_version="v1"),
    )
    await instance.generate("hi")
    (request,) = model.requests
    assert request.system == [{"type": "text", "text": "Be brief."}]
    assert request.params == {"top_k": 3, "tools": [{"type": "web_search"}]}
    assert [*request.tools] == tools
    assert (request.structure, request.tool_choice, request.response_format) == (SCHEMA, "auto", {"type": "text"})
    assert request.modalities == ["text"]
    assert request.config == ProviderConfig(api_version="v1")
    assert [message.text for message in request.messages] == ["hi"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ProviderConfig(timeout=timedelta(seconds=5), headers={"a": "1"})),
        (
            ProviderConfig(api_version="v1", headers={"b": "2"}),
            ProviderConfig(timeout=timedelta(seconds=5), api_version="v1", headers={"a": "1", "b": "2"}),
        ),
    ],
)
async def test_the_config_lies_over_that_of_the_reference(given: ProviderConfig | None, expected: object) -> None:
    """What is given here wins; headers are joined."""
    model = FakeModel(says("hi"))
    below = ProviderConfig(timeout=timedelta(seconds=5), headers={"a": "1"})
    await llm(model=model.reference(below), config=given).generate("hi")
    assert model.requests[0].config == expected


async def test_a_history_is_sent_and_not_changed() -> None:
    """Its messages are the same objects; the turn holds the new ones only."""
    model = FakeModel(says("three"))
    history: list[Message] = [UserMessage("one"), AssistantMessage("two")]
    turn = await llm(model=model.reference()).generate(history, "and?")
    assert len(history) == 2
    assert all(sent is kept for sent, kept in zip(model.requests[0].messages, history, strict=False))
    assert [message.text for message in turn.messages] == ["and?", "three"]


async def test_a_thread_can_be_continued_without_an_input() -> None:
    """The turn then begins with the model's message; the thread is left as it was."""
    thread = Thread().user("one")
    turn = await llm(model=FakeModel(says("two")).reference()).generate(thread)
    assert [message.text for message in turn.messages] == ["two"]
    assert thread.length == 1


async def test_several_inputs_are_several_messages() -> None:
    """In their order."""
    model = FakeModel(says("ok"))
    turn = await llm(model=model.reference()).generate("one", TextBlock("two"), UserMessage("three"))
    assert [message.text for message in turn.messages] == ["one", "two", "three", "ok"]


async def test_an_instance_serves_many_at_once() -> None:
    """It keeps nothing of an inference."""
    model = FakeModel(says("a"), says("b"))
    instance = llm(model=model.reference())
    assert (await instance.generate("1")).response.text == "a"
    assert (await instance.generate("2")).messages[0].text == "2"
    assert [len(request.messages) for request in model.requests] == [1, 1]


def test_streaming_needs_its_capability() -> None:
    """Refused by the call itself; generate still works."""
    with pytest.raises(UPPError, match="cannot stream; use generate") as caught:
        llm(model=unable(streaming=False).reference()).stream("hi")
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("place", ["history", "input"])
async def test_media_without_a_capability_is_refused_before_anything_is_sent(place: str) -> None:
    """In the history too; a stream refuses by the call itself."""
    model = FakeModel(capabilities=NO_IMAGES)
    instance = llm(model=model.reference())
    history: list[Message] = [UserMessage([IMAGE])] if place == "history" else []
    inputs = ["hi"] if place == "history" else [IMAGE]
    with pytest.raises(UPPError, match="takes no image input"):
        await instance.generate(history, *inputs)
    with pytest.raises(UPPError, match="takes no image input"):
        instance.stream(history, *inputs)
    assert model.requests == []


def test_a_stream_refuses_bad_inputs_by_the_call_itself() -> None:
    """Not only when it is read."""
    with pytest.raises(UPPError, match="an input must be"):
        llm(model=FakeModel().reference()).stream(7)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_tool_is_used_as_it_is() -> None:
    """Its schema goes out unchanged."""
    tool = tool_named("t")
    model = FakeModel()
    llm(model=model.reference(), tools=[tool])
    checked: list[Tool] = list(model.checked[0][0])
    assert checked[0] is tool
