"""Content blocks."""

from __future__ import annotations

import pytest
from hypothesis import given

from perdure.upp.content import (
    ContentBlock,
    ContentBlockType,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    block_from_json,
    reasoning,
    text,
)
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.media_source import UrlSource
from tests.unit.upp import strategies as upp


@given(upp.content_blocks)
def test_a_block_survives_json(block: ContentBlock) -> None:
    """Every block is read back equal."""
    assert block_from_json(loads(dumps(block.to_json()))) == block


def test_json_is_camel_case_without_absent_fields() -> None:
    """Names are the specification's, and what is None is not written."""
    block = ImageBlock(UrlSource("https://x.y/z.png"), "image/png", width=3)
    assert block.to_json() == {
        "type": "image",
        "source": {"type": "url", "url": "https://x.y/z.png"},
        "mimeType": "image/png",
        "width": 3,
    }


def test_the_type_is_a_string() -> None:
    """Constants compare equal to the specification's literals."""
    assert TextBlock("x").type == "text"
    assert ContentBlockType.REASONING == "reasoning"


def test_unknown_fields_are_ignored() -> None:
    """A newer writer's extra fields do no harm."""
    assert block_from_json({"type": "text", "text": "x", "annotations": []}) == TextBlock("x")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "hologram"}, "unknown type 'hologram'; known are text, reasoning"),
        ({}, "unknown type None"),
        ("text", "expected a JSON object"),
        ({"type": "text"}, "field 'text' must be a string, it is missing"),
        ({"type": "audio", "data": "!", "mimeType": "audio/wav"}, "field 'data' is not base64"),
        ({"type": "image", "mimeType": "image/png"}, "image source"),
        ({"type": "image", "source": {"type": "url", "url": "u"}, "mimeType": "i", "width": "3"}, "'width'"),
    ],
)
def test_what_is_no_block_is_an_invalid_request(value: JSONValue, message: str) -> None:
    """A block that cannot be read says why."""
    with pytest.raises(UPPError, match=message) as caught:
        block_from_json(value)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_blocks_have_short_makers() -> None:
    """`text` and `reasoning` are the specification's convenience constructors."""
    assert text("x") == TextBlock("x")
    assert reasoning("x") == ReasoningBlock("x")
