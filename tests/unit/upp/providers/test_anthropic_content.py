"""The vendor's blocks of an assistant message, read and written back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, UserMessage, message_from_json
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.anthropic.content import assistant_blocks, read_content
from perdure.upp.providers.anthropic.response import read_response
from perdure.upp.tool_call import ToolCall

REQUEST = LLMRequest([UserMessage("hi")])
THINK: JSONObject = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
REDACTED: JSONObject = {"type": "redacted_thinking", "data": "ZW5j"}
CALL: JSONObject = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}


def text(words: str) -> JSONObject:
    return {"type": "text", "text": words}


def answer(*blocks: JSONObject) -> AssistantMessage:
    body: JSONObject = {"id": "msg_1", "content": [*blocks], "stop_reason": "end_turn"}
    return read_response(REQUEST, body, by_tool=False).message


def kept(message: AssistantMessage) -> JSONValue:
    return (message.metadata or {})["anthropic"].get("content")


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9).filter(lambda value: value.strip())


@st.composite
def blocks(draw: st.DrawFn) -> JSONObject:
    """A block that the vendor may give, with an id of its own where it has one."""
    said, id_ = draw(words), f"toolu_{draw(st.uuids()).hex}"
    given_input: JSONObject = draw(st.dictionaries(st.text("ab", max_size=3), st.integers() | words, max_size=3))
    kinds: list[JSONObject] = [
        text(said),
        {**text(said), "citations": [{"type": "page_location"}]},
        {"type": "thinking", "thinking": said, "signature": draw(words)},
        {"type": "redacted_thinking", "data": said},
        {"type": "tool_use", "id": id_, "name": "look", "input": given_input},
        {"type": "server_tool_use", "id": id_, "name": "web_search", "input": {"query": said}},
        {"type": "web_search_tool_result", "tool_use_id": id_, "content": []},
    ]
    return draw(st.sampled_from(kinds))


@given(st.lists(blocks(), max_size=6), st.builds(text, words))
def test_whatever_order_the_vendor_gives_goes_back_after_being_stored(said: list[JSONObject], last: JSONObject) -> None:
    stored = message_from_json(answer(*said, last).to_json())
    assert isinstance(stored, AssistantMessage)
    assert assistant_blocks(stored) == [*said, last]


@pytest.mark.parametrize(
    "said", [(), (text("a"),), (THINK, text("a"), CALL), (THINK, THINK, CALL), (CALL, CALL | {"id": "toolu_2"})]
)
def test_what_upp_says_itself_is_not_kept_twice(said: tuple[JSONObject, ...]) -> None:
    assert kept(answer(*said)) is None


@pytest.mark.parametrize(
    "said",
    [(text("a"), THINK, CALL), (CALL, text("a")), (REDACTED, text("a")), (THINK, CALL, THINK, CALL | {"id": "2"})],
)
def test_what_upp_cannot_say_is_kept(said: tuple[JSONObject, ...]) -> None:
    assert kept(answer(*said)) == [*said]


def test_a_message_that_was_edited_is_sent_as_it_says() -> None:
    original = answer(text("a"), REDACTED, CALL)
    edited = AssistantMessage("b", original.tool_calls, metadata=original.metadata)
    assert assistant_blocks(edited) == [text("b"), CALL]


def test_a_message_without_one_of_its_calls_is_sent_without_it() -> None:
    original = answer(THINK, CALL, text("then"), CALL | {"id": "toolu_2"})
    edited = AssistantMessage("then", (original.tool_calls or [])[:1], metadata=original.metadata)
    assert assistant_blocks(edited) == [text("then"), CALL]


NO_BLOCKS: list[JSONValue] = ["x", [1], [{"type": "text"}], [{}], None]


@pytest.mark.parametrize("content", NO_BLOCKS)
def test_kept_content_that_is_no_list_of_blocks_is_ignored(content: JSONValue) -> None:
    said = AssistantMessage("a", metadata={"anthropic": {"content": content}})
    assert assistant_blocks(said) == [text("a")]


@pytest.mark.parametrize(
    ("signatures", "sent"),
    [
        ({"thinkingSignatures": ["s1", "s2"]}, ["s1", "s2"]),
        ({"thinkingSignatures": ["s1", ""]}, ["s1"]),
        ({"thinkingSignatures": ["s1"]}, []),
        ({"thinkingSignature": "s1"}, []),
        ({"thinkingSignatures": [1, 2]}, []),
        ({}, []),
    ],
)
def test_reasoning_is_sent_with_its_own_signature_or_not_at_all(signatures: JSONObject, sent: list[str]) -> None:
    content = [ReasoningBlock("one"), ReasoningBlock("two"), TextBlock("a")]
    said = AssistantMessage(content, metadata={"anthropic": signatures})
    assert [block.get("signature") for block in assistant_blocks(said)[:-1]] == sent


def test_one_signature_is_that_of_the_only_reasoning() -> None:
    content = [ReasoningBlock("one"), TextBlock("a")]
    said = AssistantMessage(content, metadata={"anthropic": {"thinkingSignature": "s1"}})
    assert assistant_blocks(said)[0] == {"type": "thinking", "thinking": "one", "signature": "s1"}


@pytest.mark.parametrize("said", [(THINK,), (REDACTED,), (THINK, text(" ")), (text("\n"), REDACTED, THINK)])
def test_thinking_never_ends_a_message(said: tuple[JSONObject, ...]) -> None:
    assert assistant_blocks(answer(*said)) == []


def test_cached_thinking_is_never_marked_but_what_follows_is() -> None:
    said = AssistantMessage([ReasoningBlock("one"), TextBlock("a")], metadata={"anthropic": {"thinkingSignature": "s"}})
    assert [block["type"] for block in assistant_blocks(said)] == ["thinking", "text"]


def test_calls_without_or_with_repeated_ids_get_their_own() -> None:
    said = answer(CALL, CALL, {"type": "tool_use", "name": "look", "input": None})
    calls = said.tool_calls or []
    assert len({call.tool_call_id for call in calls}) == 3
    assert calls[0] == ToolCall("toolu_1", "look", {"a": 1})
    assert [block["id"] for block in assistant_blocks(said)] == [call.tool_call_id for call in calls]


def test_null_fields_empty_text_and_the_usual_caller_are_not_kept() -> None:
    said = answer({**text("a"), "citations": None}, text(""), {**CALL, "caller": {"type": "direct"}})
    assert kept(said) is None


@pytest.mark.parametrize(
    "block",
    [
        {
            "type": "code_execution_tool_result",
            "content": {"type": "code_execution_result", "stdout": "", "stderr": "x"},
        },
        {"type": "code_execution_tool_result", "content": {"type": "code_execution_tool_result_error"}},
        {"type": "text_editor_code_execution_tool_result", "content": {"type": "x"}},
        {"type": "something_new", "text": "hidden"},
    ],
)
def test_blocks_without_words_say_nothing(block: JSONObject) -> None:
    assert read_content([block]).content == []
