"""OpenRouter's factory, and what it takes beyond Chat Completions."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.content import AudioBlock, DocumentBlock, ImageBlock, TextBlock, UserContent, VideoBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMCapabilities, LLMRequest, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai_completions import CompletionsModel
from perdure.upp.providers.openai_completions.request import to_body
from perdure.upp.providers.openai_responses import ResponsesModel
from perdure.upp.providers.openrouter import openrouter
from perdure.upp.providers.openrouter.dialect import COMPLETIONS, classify, classify_responses
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

CACHED: Any = {"openrouter": {"cache_control": {"type": "ephemeral"}}}
MARK: Any = {"type": "ephemeral"}


def wire(*messages: Message) -> Any:
    return to_body(LLMRequest(list(messages)), "a/b", COMPLETIONS, stream=False)["messages"]


def test_a_reference_speaks_chat_completions_by_default() -> None:
    config = ProviderConfig(api_key="k")
    reference = openrouter("a/b", config=config)
    model = reference.bind()
    assert (reference.config, reference.provider.name, reference.provider.version) == (config, "openrouter", "1")
    assert isinstance(model, CompletionsModel)
    assert (model.provider, model.model_id) == ("openrouter", "a/b")


def test_a_reference_may_speak_responses() -> None:
    model = openrouter("a/b", api="responses").bind()
    assert isinstance(model, ResponsesModel)
    assert (model.provider, model.model_id) == ("openrouter", "a/b")


def test_another_api_is_refused() -> None:
    reference = openrouter("a/b")
    other = ModelReference("a/b", reference.provider, {"api": "chat"})
    with pytest.raises(UPPError, match='it must be "completions" or "responses"') as caught:
        other.bind()
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "openrouter")


@pytest.mark.parametrize("api", ["completions", "responses"])
def test_its_models_may_do_everything(api: Any) -> None:
    assert openrouter("a/b", api=api).bind().capabilities == LLMCapabilities(
        True, True, True, True, True, True, True, True
    )


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (AudioBlock(b"\0\0\0", "audio/wav"), {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        (
            AudioBlock(b"\0\0\0", "audio/mpeg; rate=8"),
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        ),
        (
            VideoBlock(b"\0\0\0", "video/mp4"),
            {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        ),
        (
            DocumentBlock(UrlSource("https://x/y.pdf"), "application/pdf", "y.pdf"),
            {"type": "file", "file": {"filename": "y.pdf", "file_data": "https://x/y.pdf"}},
        ),
    ],
)
def test_it_takes_sound_video_and_documents_by_url(block: UserContent, part: JSONObject) -> None:
    assert wire(UserMessage([block]))[0]["content"] == [part]


def test_sound_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UPPError, match="no audio/midi; it takes"):
        wire(UserMessage([AudioBlock(b"\0", "audio/midi")]))


def test_the_images_that_a_model_made_go_back_with_its_message() -> None:
    made = AssistantMessage([TextBlock("Here."), ImageBlock(Base64Source("AAAA"), "image/png")])
    assert wire(UserMessage("draw"), made)[1] == {
        "role": "assistant",
        "content": "Here.",
        "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    }


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (UserMessage("a", metadata=CACHED), [{"type": "text", "text": "a", "cache_control": MARK}]),
        (
            UserMessage(["a", "b", ImageBlock(UrlSource("https://x/y.png"), "image/png")], metadata=CACHED),
            [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b", "cache_control": MARK},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            ],
        ),
        (AssistantMessage("a", metadata=CACHED), [{"type": "text", "text": "a", "cache_control": MARK}]),
        (
            ToolResultMessage([ToolResult("1", "a"), ToolResult("2", "b")], metadata=CACHED),
            [{"type": "text", "text": "b", "cache_control": MARK}],
        ),
    ],
)
def test_a_cache_mark_stands_on_the_last_text(message: Message, content: Any) -> None:
    assert wire(message)[-1]["content"] == content


def test_a_cache_mark_without_a_text_is_refused() -> None:
    call = AssistantMessage([], [ToolCall("1", "f", {})], metadata=CACHED)
    with pytest.raises(UPPError, match="cache_control needs a message with text"):
        wire(call)


def test_images_may_be_asked_for() -> None:
    body = to_body(LLMRequest([UserMessage("draw")], modalities=["image", "text"]), "a/b", COMPLETIONS, stream=False)
    assert body["modalities"] == ["image", "text"]


def test_open_schemas_are_left_to_the_vendor_behind_it() -> None:
    def run(arguments: object) -> None:
        """Does nothing."""

    openrouter("a/b").bind().check([Tool("f", "", {"type": "object"}, run)], None)


@pytest.mark.parametrize("reading", [classify, classify_responses])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": 403, "metadata": {"reasons": ["violence"]}}, ErrorCode.CONTENT_FILTERED),
        ({"code": 403, "metadata": {"flagged_input": "..."}}, ErrorCode.CONTENT_FILTERED),
        ({"code": 502, "metadata": {"provider_name": "x"}}, None),
        ({"code": 403, "metadata": None}, None),
    ],
)
def test_flagged_input_is_filtered_content(reading: Any, error: JSONObject, code: ErrorCode | None) -> None:
    assert reading(403, error) == code
