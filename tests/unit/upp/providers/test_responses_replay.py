from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage, message_from_json
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorRequest
from perdure.upp.providers.openai_responses import OPENAI, Dialect
from perdure.upp.providers.openai_responses.items import to_items
from perdure.upp.providers.openai_responses.response import read_response
from perdure.upp.tool_call import ToolCall

SENT = VendorRequest("openai", "https://host/responses", {}, ProviderConfig())

REASONING: JSONObject = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Think."}],
    "encrypted_content": "sealed",
}
CALL: JSONObject = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{ "city": "Bern" }',
}
IMAGE: JSONObject = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "AQI="}
SEARCH: JSONObject = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}}


def said(*texts: str, id: str = "msg_1", **more: Any) -> JSONObject:
    parts: list[Any] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": parts, **more}


def read(*items: JSONObject) -> AssistantMessage:
    raw: JSONObject = {"id": "resp_1", "status": "completed", "model": "gpt-5", "output": [*items]}
    return read_response(raw, LLMRequest([]), SENT).message


def sent_back(message: AssistantMessage, *, stored: bool = False, dialect: Dialect = OPENAI) -> list[Any]:
    return to_items([message], dialect, stored=stored)


def test_items_go_back_in_the_order_they_came_in() -> None:
    items = [SEARCH, REASONING, said("Look."), CALL, IMAGE, {**REASONING, "id": "rs_2"}, said("Done.", id="msg_2")]
    assert sent_back(read(*items)) == items


def test_what_is_kept_has_neither_texts_nor_images_twice() -> None:
    message = read(said("a long text"), IMAGE)
    assert message.metadata is not None
    assert "a long text" not in str(message.metadata)
    assert "AQI=" not in str(message.metadata)


def test_citations_are_kept_with_the_message_and_not_sent_back() -> None:
    part: JSONObject = {
        "type": "output_text",
        "text": "Bern.",
        "annotations": [{"type": "url_citation", "url": "https://bern.ch"}],
    }
    message = read({**said(), "content": [part]})
    assert message.metadata is not None
    assert "https://bern.ch" in str(message.metadata["openai"])
    assert sent_back(message) == [said("Bern.")]


def test_a_text_that_was_edited_goes_back_as_it_is_now() -> None:
    message = replace(read(REASONING, said("My secret.")), content=[ReasoningBlock("Think."), TextBlock("[removed]")])
    assert sent_back(message) == [REASONING, said("[removed]")]


def test_arguments_that_were_edited_go_back_as_they_are_now() -> None:
    message = replace(read(CALL), tool_calls=[ToolCall("call_1", "get_weather", {"city": "Oslo"})])
    assert sent_back(message) == [{**CALL, "arguments": '{"city":"Oslo"}'}]


def test_arguments_that_were_not_edited_go_back_as_they_were_written() -> None:
    assert sent_back(read(CALL))[0]["arguments"] == '{ "city": "Bern" }'


REBUILT_CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Bern"}'}


@pytest.mark.parametrize(
    "changes",
    [
        {"content": [TextBlock("Look.")]},
        {"content": [ReasoningBlock("Changed."), TextBlock("Look.")]},
        {"content": [ReasoningBlock("Think."), TextBlock("Look."), TextBlock("More.")]},
    ],
)
def test_an_answer_whose_reasoning_or_texts_no_longer_agree_is_built_anew(changes: dict[str, Any]) -> None:
    message = replace(read(REASONING, said("Look."), CALL), **changes)
    text = {"type": "message", "role": "assistant", "content": message.text}
    assert sent_back(message) == [text, REBUILT_CALL]


@pytest.mark.parametrize(
    "calls",
    [None, [], [ToolCall("other", "get_weather", {})], [ToolCall("call_1", "other", {})]],
)
def test_an_answer_whose_calls_no_longer_agree_is_built_anew(calls: list[ToolCall] | None) -> None:
    items = sent_back(replace(read(REASONING, CALL), tool_calls=calls))
    assert [(item["type"], item["call_id"], item["name"]) for item in items] == [
        ("function_call", call.tool_call_id, call.tool_name) for call in calls or []
    ]


def test_an_image_that_became_a_url_cannot_go_back() -> None:
    message = replace(read(IMAGE), content=[ImageBlock(UrlSource("https://host/1.png"), "image/png")])
    with pytest.raises(UPPError, match="image"):
        sent_back(message)


def test_reasoning_that_the_vendor_cannot_read_stays_here_with_the_ids_that_would_ask_for_it() -> None:
    unsealed = {name: value for name, value in REASONING.items() if name != "encrypted_content"}
    items = sent_back(read(unsealed, said("Look.", phase="commentary"), CALL))
    assert items == [
        {"type": "message", "role": "assistant", "content": "Look.", "phase": "commentary"},
        {name: value for name, value in CALL.items() if name != "id"},
    ]


def test_reasoning_that_the_vendor_has_stored_goes_back_by_its_id() -> None:
    unsealed = {name: value for name, value in REASONING.items() if name != "encrypted_content"}
    assert sent_back(read(unsealed, CALL), stored=True) == [unsealed, CALL]


def test_reasoning_that_nothing_follows_stays_here() -> None:
    assert sent_back(read(said("Look."), REASONING)) == [said("Look.")]
    assert sent_back(read(REASONING)) == []


def test_reasoning_in_front_of_a_blank_text_stays_here_with_it() -> None:
    assert sent_back(read(CALL, REASONING, said(" \n"))) == [CALL]


def test_null_and_empty_fields_do_not_go_back() -> None:
    assert sent_back(read({**REASONING, "status": None, "content": []}, {**CALL, "namespace": None})) == [
        REASONING,
        CALL,
    ]


def test_a_refusal_goes_back_as_one() -> None:
    refusal: JSONObject = {**said(), "content": [{"type": "refusal", "refusal": "No."}]}
    assert sent_back(read(refusal)) == [refusal]


def test_an_image_that_failed_goes_back_as_it_is() -> None:
    failed: JSONObject = {**IMAGE, "status": "failed", "result": None}
    assert sent_back(read(failed, said("Sorry."))) == [failed, said("Sorry.")]


def test_an_answer_survives_its_json_form() -> None:
    message = message_from_json(read(REASONING, said("Look."), CALL).to_json())
    assert isinstance(message, AssistantMessage)
    assert sent_back(message) == [REASONING, said("Look."), CALL]


@pytest.mark.parametrize("output", [None, "text", [], [1], [{}], [{"type": "message", "content": 5}]])
def test_whatever_else_stands_in_the_metadata_does_no_harm(output: Any) -> None:
    message = AssistantMessage("Hi.", metadata={"openai": {"output": output}})
    assert sent_back(message)[-1]["content"] == "Hi."


def test_a_services_own_ids_stay_where_ids_must_be() -> None:
    dialect = replace(OPENAI, item_ids=True)
    items = [REASONING, said("Look."), CALL]
    assert sent_back(read(*items), dialect=dialect) == items
