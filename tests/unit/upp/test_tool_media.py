"""What a tool returns that made media: each piece has an id, and the model is told it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.upp import ToolCall, ToolContext, tool
from perdure.upp.content import AudioBlock, BinaryBlock, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.json_value import jsonable
from perdure.upp.media import Image
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.tool_call import ToolExecution
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tool_media import Given, StructuredToolResult, ToolMedia, to_media
from perdure.upp.tools import Tool

PNG = b"\x89PNG bytes"
STORED = "550e8400-e29b-41d4-a716-446655440000"
CALL = ToolCall("c1", "draw", {})


class Shelf:
    """Media that is stored, by id."""

    max_bytes = 100

    def __init__(self, *media: ToolMedia) -> None:
        self._media = {item.content_id: item for item in media}

    async def find(self, content_id: str) -> ToolMedia | None:
        found = self._media.get(content_id)
        return None if found is None else replace(found, data=None)

    async def read(self, content_id: str) -> ToolMedia | None:
        return self._media.get(content_id)


def drawing(returned: object) -> Tool:
    @tool(name="draw", effect="none")
    def draw() -> object:
        """Draw."""
        return returned

    return draw


async def run(returned: object, *, key: str = "k", shelf: Shelf | None = None) -> ToolExecution:
    return await execute_tool(drawing(returned), CALL, ToolContext("c1", key, attempt=1, contents=shelf or Shelf()))


async def test_the_model_is_told_the_ids_and_never_the_bytes() -> None:
    picture = ToolMedia("Image/PNG", PNG, filename="a.png", description="a red square")
    made = await run(StructuredToolResult([picture, AudioBlock(b"pcm", "audio/wav")], {"drawn": 2}))
    assert not made.is_error
    assert made.content is not None
    first, second = made.content.media
    assert made.result == {
        "result": {"drawn": 2},
        "content_items": [
            {"type": "image", "content_id": first.content_id, "media_type": "image/png", "size_bytes": len(PNG),
             "filename": "a.png", "description": "a red square"},
            {"type": "audio", "content_id": second.content_id, "media_type": "audio/wav", "size_bytes": 3},
        ],
    }  # fmt: skip
    assert (first.data, second.data, made.content.presented) == (PNG, b"pcm", False)
    assert all(uuid.UUID(str(item.content_id)).version == 4 for item in made.content.media)
    assert "content" not in made.to_json()


async def test_an_id_is_of_the_call_the_place_and_the_bytes() -> None:
    """So a second attempt stores the same once, and never puts other bytes below a stored id."""

    async def ids(*bodies: bytes, key: str = "k") -> list[str | None]:
        made = await run(StructuredToolResult([ToolMedia("a/b", body) for body in bodies]), key=key)
        assert made.content is not None
        return [item.content_id for item in made.content.media]

    assert await ids(b"x", b"x") == await ids(b"x", b"x")
    assert len({*await ids(b"x", b"x"), *await ids(b"y"), *await ids(b"x", key="other")}) == 4


async def test_a_result_without_a_value_of_its_own_has_the_media_alone() -> None:
    made = await run(StructuredToolResult([ToolMedia("a/b", b"")], present=True))
    assert isinstance(made.result, dict)
    assert list(made.result) == ["content_items"]
    assert made.content is not None
    assert made.content.presented


async def test_stored_media_is_named_by_its_facts() -> None:
    shelf = Shelf(ToolMedia("image/png", PNG, content_id=STORED, filename="x.png"))
    made = await run(StructuredToolResult([ToolMedia("a/b", content_id=STORED, description="mine")]), shelf=shelf)
    assert isinstance(made.result, dict)
    assert made.content is not None
    (item,) = made.content.media
    assert (item.media_type, item.filename, item.description, item.data) == ("image/png", "x.png", "mine", None)
    unknown = await run(StructuredToolResult([ToolMedia("a/b", content_id="no such")]))
    assert (unknown.is_error, unknown.content) == (True, None)
    assert "there is no content 'no such'" in str(unknown.result)


async def test_tools_read_stored_media() -> None:
    """By the context; a tool of a bare `llm()` has none to read."""
    seen: list[ToolMedia] = []

    @tool(effect="none")
    async def look(content_id: str, context: ToolContext) -> str:
        """Look."""
        seen.extend([await context.find_content(content_id), await context.read_content(content_id)])
        return "seen"

    shelf = Shelf(ToolMedia("image/png", PNG, content_id=STORED))
    call = ToolCall("c", "look", {"content_id": STORED})
    assert (await execute_tool(look, call, ToolContext("c", "k", 1, contents=shelf))).result == "seen"
    assert [item.data for item in seen] == [None, PNG]
    for context in (ToolContext("c", "k", 1), ToolContext("c", "k", 1, contents=Shelf())):
        refused = await execute_tool(look, call, context)
        assert refused.is_error
        assert "content" in str(refused.result) or "media" in str(refused.result)


@pytest.mark.parametrize(
    ("given", "media_type", "data"),
    [
        (Image.from_bytes(PNG, "image/png"), "image/png", PNG),
        (ImageBlock(Base64Source("eA=="), "image/gif"), "image/gif", b"x"),
        (ImageBlock(BytesSource(b"y"), "image/gif"), "image/gif", b"y"),
        (DocumentBlock(TextSource("ä"), "text/plain", "a.txt"), "text/plain", "ä".encode()),
        (VideoBlock(b"v", "video/mp4"), "video/mp4", b"v"),
        (BinaryBlock(b"z", "application/zip"), "application/zip", b"z"),
    ],
)
def test_blocks_and_helpers_are_media(given: Given, media_type: str, data: bytes) -> None:
    made = to_media(given)
    assert (made.media_type, made.data, made.size_bytes) == (media_type, data, len(data))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda: StructuredToolResult([ImageBlock(UrlSource("https://x/y.png"), "image/png")]), "needs its bytes"),
        (lambda: StructuredToolResult([TextBlock("x")]), "give text as `result`"),
        (lambda: StructuredToolResult([cast_any("x")]), "hold media, not str"),
        (lambda: StructuredToolResult([ImageBlock(Base64Source("!"), "image/png")]), "no base64"),
        (lambda: StructuredToolResult([ToolMedia("a/b", b"")] * 33), "32 pieces"),
        (lambda: ToolMedia("png", b""), "must be like image/png"),
        (lambda: ToolMedia("a/b", b"", filename="../x"), "without slashes"),
        (lambda: ToolMedia("a/b", b"", description="x" * 1001), "1000 characters"),
        (lambda: ToolMedia("a/b"), "needs `data`"),
    ],
    ids=range(9),
)
def test_what_is_no_media_is_refused_in_words(returned: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        returned()


def cast_any(value: Any) -> Any:
    return value


async def test_too_much_media_is_an_error_for_the_model() -> None:
    made = await run(StructuredToolResult([ToolMedia("a/b", b"x" * 101)]))
    assert made.is_error
    assert "PERDURE_MAX_CONTENT_BYTES" in str(made.result)
    assert made.content is None


async def test_media_is_stored_with_an_agents_run_only() -> None:
    """Where nobody stores it nothing is said to be there, and it never becomes JSON by accident."""
    made = await execute_tool(
        drawing(StructuredToolResult([ToolMedia("a/b", b"x")])), CALL, ToolContext("c1", "k", attempt=1)
    )
    assert made.is_error
    assert "an agent's run" in str(made.result)
    with pytest.raises(TypeError):
        jsonable(StructuredToolResult([]))
