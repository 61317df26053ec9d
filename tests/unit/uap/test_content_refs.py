"""How conversations name stored media, and the bytes in the place of the names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.errors import InvalidInput
from perdure.uap.content_refs import (
    block_of,
    content_of,
    content_path,
    find_mention,
    media_facts,
    reference_block,
    references,
    returned_media,
    with_content,
    with_plain_references,
)
from perdure.upp.content import AudioBlock, BinaryBlock, ContentBlock, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.json_value import JSONValue
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tool_media import ToolContent, ToolMedia

A, B = "550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-42d3-a456-426614174000"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def user(*blocks: ContentBlock, **metadata: object) -> UserMessage:
    return UserMessage([*blocks], id="m", timestamp=AT, metadata=metadata or None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "ident"),
    [
        (f"/api/content/{A}", A),
        (f"/api/content/{A.upper()}?expires=1&signature=x", A),
        (f"https://perdure.example:8700/api/content/{A}#page=2", A),
        (f"/api/content/{A}/url", None),
        (f"/api/content/{A}0", None),
        ("/api/content/", None),
        (f"https://elsewhere/?next=/api/content/{A}", None),
        (f"ftp://host/api/content/{A}", None),
        (f"data:text/plain,/api/content/{A}", None),
        ("https://[", None),
    ],
)
def test_content_is_ours_by_its_path(url: str, ident: str | None) -> None:
    assert content_of(url) == ident


def test_references_are_found_once_each() -> None:
    image, document = (
        ImageBlock(UrlSource(content_path(A)), "image/png"),
        DocumentBlock(UrlSource(content_path(B)), "a/b"),
    )
    elsewhere = ImageBlock(UrlSource("https://x/y"), "image/png")
    messages: list[Message] = [user(TextBlock("x"), image, elsewhere, image), AssistantMessage([image]), user(document)]
    assert references(messages) == [A, B]


def test_bytes_stand_in_the_place_of_references() -> None:
    """As the stored media's own type says; a message without references is the very object."""
    plain = user(TextBlock("x"))
    assert with_content(plain, {}) is plain
    given = user(
        TextBlock("see"),
        ImageBlock(UrlSource(f"https://host/api/content/{A}?signature=x"), "image/jpeg", 3, 4),
        uamp={"items": [None, {"detail": "high"}]},
    )
    whole = with_content(given, {A: ToolMedia("image/png", b"png", content_id=A)})
    assert whole.content == [TextBlock("see"), ImageBlock(BytesSource(b"png"), "image/png", 3, 4)]
    assert (whole.id, whole.timestamp, whole.metadata) == (given.id, given.timestamp, given.metadata)
    read = user(DocumentBlock(UrlSource(content_path(A)), "text/plain", "a.txt"))
    text = with_content(read, {A: ToolMedia("text/markdown; charset=utf-8", "ä".encode(), content_id=A)})
    assert text.content == [DocumentBlock(TextSource("ä"), "text/plain", "a.txt")]
    pdf = with_content(read, {A: ToolMedia("application/pdf", b"%PDF", content_id=A)})
    assert pdf.content == [DocumentBlock(Base64Source("JVBERg=="), "application/pdf", "a.txt")]
    said = AssistantMessage([ImageBlock(UrlSource(content_path(A)), "image/png")], [ToolCall("c", "t", {})])
    shown = with_content(said, {A: ToolMedia("image/png", b"png", content_id=A)})
    assert shown.tool_calls == said.tool_calls
    assert shown.images[0].source == BytesSource(b"png")


@pytest.mark.parametrize(
    ("block", "media"),
    [
        (ImageBlock(UrlSource(content_path(A)), "image/png"), ToolMedia("application/pdf", b"", content_id=A)),
        (DocumentBlock(UrlSource(content_path(A)), "text/plain"), ToolMedia("application/zip", b"", content_id=A)),
        (DocumentBlock(UrlSource(content_path(A)), "text/plain"), ToolMedia("text/plain", b"\xff", content_id=A)),
    ],
)
def test_media_of_another_kind_is_refused_by_its_id(block: ImageBlock | DocumentBlock, media: ToolMedia) -> None:
    with pytest.raises(InvalidInput, match=A):
        with_content(user(block), {A: media})


def test_stored_references_have_neither_host_nor_signature() -> None:
    given = user(ImageBlock(UrlSource(f"https://h/api/content/{A.upper()}?signature=x"), "image/png"), TextBlock("x"))
    kept = with_plain_references(given)
    assert kept.images == [ImageBlock(UrlSource(content_path(A)), "image/png")]
    assert with_plain_references(kept) == kept


@pytest.mark.parametrize(
    ("media_type", "refers", "holds"),
    [
        ("image/png", ImageBlock, ImageBlock),
        ("application/pdf", DocumentBlock, DocumentBlock),
        ("text/csv", DocumentBlock, DocumentBlock),
        ("application/json", DocumentBlock, DocumentBlock),
        ("audio/wav", None, AudioBlock),
        ("video/mp4", None, VideoBlock),
        ("application/zip", None, BinaryBlock),
    ],
)
def test_what_a_block_can_refer_to_and_what_it_must_hold(media_type: str, refers: type | None, holds: type) -> None:
    media = ToolMedia(media_type, b"{}", content_id=A, filename="f")
    reference = reference_block(media)
    assert (None if reference is None else type(reference)) == refers
    assert isinstance(block_of(media), holds)
    assert references([user(reference)] if reference is not None else []) == ([A] if refers else [])


def test_what_tools_returned_is_found_again() -> None:
    media = (ToolMedia("image/png", b"x", content_id=A, description="d"), ToolMedia("a/b", content_id=B, filename="n"))
    found = returned_media(ToolContent(media).result("ok"))
    assert [(item.content_id, item.media_type, item.description, item.filename) for item in found] == [
        (A, "image/png", "d", None),
        (B, "a/b", None, "n"),
    ]
    assert [item.data for item in found] == [None, None]


@pytest.mark.parametrize(
    "result",
    [
        None, "text", [1], {"content_items": "x"}, {"content_items": [1, {"content_id": A}, {"media_type": "a/b"}]},
        {"content_items": [{"content_id": "x", "media_type": "a/b"}, {"content_id": A, "media_type": "a/"}]},
    ],
    ids=range(6),
)  # fmt: skip
def test_any_other_result_names_no_media(result: JSONValue) -> None:
    assert returned_media(result) == []
    assert media_facts(result) == []


def test_an_attachment_is_found_wherever_it_was_named() -> None:
    """By the reference, by the id that came with inline media, or in what a tool returned; the last one counts."""
    inline = AudioBlock(b"pcm", "audio/wav")
    said = user(TextBlock("x"), inline, uamp={"items": [None, {"content_id": B}]})
    reference = ImageBlock(UrlSource(content_path(A)), "image/png")
    result = ToolContent((ToolMedia("image/png", b"x", content_id=A, filename="later.png"),)).result(None)
    assert find_mention([said], B) is inline
    assert find_mention([user(reference)], A.upper()) is reference
    later = find_mention([user(reference), ToolResultMessage([ToolResult("c", result)])], A)
    assert isinstance(later, ToolMedia)
    assert later.filename == "later.png"
    assert find_mention([said], A) is None
