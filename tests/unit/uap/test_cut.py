"""Messages as a workflow holds them: whole where they are small, else a preview and a reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.uap.cut import NAMESPACE, PREVIEW_BYTES, WHOLE_BYTES, cut_answer, cut_input, cut_value, preview
from perdure.upp.content import BinaryBlock, ContentBlock, ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONValue, dumps, loads, sha256_hex
from perdure.upp.messages import AssistantMessage, Message, UserMessage, message_from_json
from perdure.upp.tool_call import ToolCall
from tests.unit.upp import strategies as upp


def repeated(text: str, times: int) -> str:
    """A long text of few characters."""
    return text * times


long_texts = st.builds(repeated, upp.texts(), st.integers(1, 400))
long_values: st.SearchStrategy[Any] = (
    upp.json_values() | long_texts | st.lists(long_texts, max_size=4) | st.dictionaries(upp.texts(5), long_texts)
)
long_blocks = st.builds(TextBlock, long_texts) | st.builds(ReasoningBlock, long_texts) | upp.assistant_blocks
long_calls = st.builds(ToolCall, upp.texts(), upp.texts(), long_values)
answers = st.builds(
    AssistantMessage,
    st.lists(long_blocks, max_size=4),
    st.none() | st.lists(long_calls, max_size=3),
    id=upp.texts(),
    timestamp=upp.moments(),
    metadata=upp.metadata,
)
inputs = st.builds(
    UserMessage,
    st.lists(st.builds(TextBlock, long_texts) | upp.user_blocks, max_size=4),
    id=upp.texts(),
    timestamp=upp.moments(),
)


def json_bytes(text: str) -> int:
    """What a text takes in a history, without its quotes."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8")) - 2


def cuts_of(message: Message) -> dict[str, JSONValue]:
    """What a message says was cut, by part."""
    entries = (message.metadata or {}).get(NAMESPACE, {}).get("cut", [])
    assert isinstance(entries, list)
    found: dict[str, JSONValue] = {}
    for entry in entries:
        assert isinstance(entry, dict)
        found[str(entry["part"])] = {name: value for name, value in entry.items() if name != "part"}
    assert len(found) == len(entries), "each part is named once"
    return found


def mark(value: JSONValue) -> JSONValue:
    """How a part that was cut is found again."""
    return {"sha256": sha256_hex(dumps(value)), "size": len(dumps(value))}


@given(long_values)
def test_a_preview_is_short_in_a_history(value: JSONValue) -> None:
    """At most 128 bytes as JSON writes it, escapes counted; always valid Unicode."""
    assert json_bytes(preview(value)) <= PREVIEW_BYTES


@given(upp.texts(400))
def test_a_preview_of_text_is_its_beginning(text: str) -> None:
    """But for lone surrogates, which a history cannot hold as they are."""
    assert text.encode("utf-8", "ignore").decode("utf-8").startswith(preview(text))


def test_a_preview_is_as_long_as_it_may_be() -> None:
    """Nothing is lost but what does not fit."""
    assert preview("x" * 500) == "x" * PREVIEW_BYTES
    assert preview('"' * 500) == '"' * (PREVIEW_BYTES // 2)
    assert preview("\x00" * 500) == "\x00" * (PREVIEW_BYTES // 6)
    assert preview("\U0001f378" * 500) == "\U0001f378" * (PREVIEW_BYTES // 4)
    assert preview({"a": ["x" * 500]}) == ('{"a":["' + "x" * 500)[: PREVIEW_BYTES - 3]


@given(long_values)
def test_a_value_is_cut_only_if_it_is_long(value: JSONValue) -> None:
    """Up to 1 KB of JSON is kept as it is; beyond, its hash and size tell where the whole is."""
    shown, cut = cut_value(value)
    if len(dumps(value)) <= WHOLE_BYTES:
        assert shown is value
        assert cut is None
    else:
        assert isinstance(shown, str)
        assert json_bytes(shown) <= PREVIEW_BYTES
        assert cut == mark(value)


def test_the_bound_is_met_exactly() -> None:
    """1,024 bytes of JSON are whole, 1,025 are not."""
    assert cut_value("x" * (WHOLE_BYTES - 2)) == ("x" * (WHOLE_BYTES - 2), None)
    assert cut_value("x" * (WHOLE_BYTES - 1))[1] is not None


@given(answers)
@settings(max_examples=60)
def test_a_cut_answer_is_a_real_message(answer: AssistantMessage) -> None:
    """It reads back equal, is the same message by id and time, and has every call in its place."""
    cut = cut_answer(answer)
    assert message_from_json(loads(dumps(cut.to_json()))) == cut
    assert (cut.id, cut.timestamp) == (answer.id, answer.timestamp)
    named = [(call.tool_call_id, call.tool_name) for call in answer.tool_calls or []]
    assert [(call.tool_call_id, call.tool_name) for call in cut.tool_calls or []] == named


@given(answers)
@settings(max_examples=60)
def test_every_part_of_an_answer_is_whole_or_cut(answer: AssistantMessage) -> None:
    """Small parts are untouched, long ones previews; the list of cuts says which, and how to find them."""
    cut = cut_answer(answer)
    cuts = cuts_of(cut)
    _check_content(answer.content, list(cut.content), cuts)
    for index, (call, kept) in enumerate(zip(answer.tool_calls or [], cut.tool_calls or [], strict=True)):
        part = f"toolCalls/{index}"
        if part in cuts:
            assert cuts.pop(part) == mark(call.arguments)
            assert list(kept.arguments if isinstance(kept.arguments, dict) else {}) == ["preview"]
        else:
            assert kept == call
        assert len(dumps(kept.arguments)) <= WHOLE_BYTES
    assert cuts == {}


@given(inputs)
@settings(max_examples=60)
def test_every_part_of_an_input_is_whole_or_cut(message: UserMessage) -> None:
    """Likewise; long media are left out but for their mark."""
    cut = cut_input(message)
    assert message_from_json(loads(dumps(cut.to_json()))) == cut
    assert (cut.id, cut.timestamp) == (message.id, message.timestamp)
    cuts = cuts_of(cut)
    _check_content(message.content, list(cut.content), cuts)
    assert cuts == {}


def _check_content(whole: list[ContentBlock], kept: list[ContentBlock], cuts: dict[str, JSONValue]) -> None:
    for index, block in enumerate(whole):
        found = cuts.pop(f"content/{index}", None)
        if found is None:
            assert kept.pop(0) == block
        elif isinstance(block, TextBlock | ReasoningBlock):
            shown = kept.pop(0)
            assert type(shown) is type(block)
            assert json_bytes(getattr(shown, "text")) <= PREVIEW_BYTES  # noqa: B009 - both kinds have one
            assert found == mark(block.text)
        else:
            assert found == mark(block.to_json())
    assert kept == []


def test_long_media_are_left_out() -> None:
    """An image of 5 MB never enters Temporal; what it was is found by its hash."""
    block = BinaryBlock(b"x" * 5000, "application/zip")
    cut = cut_input(UserMessage([TextBlock("see"), block, TextBlock("this")]))
    assert cut.content == [TextBlock("see"), TextBlock("this")]
    assert cuts_of(cut) == {"content/1": mark(block.to_json())}


def test_what_is_small_has_no_metadata() -> None:
    """A vendor's own metadata does not travel either."""
    assert cut_answer(AssistantMessage("hi", metadata={"vendor": {"id": "x" * 5000}})).metadata is None


def test_only_a_user_may_speak_first() -> None:
    """Submit has refused everything else."""
    with pytest.raises(AssertionError):
        cut_input(AssistantMessage("hi"))
