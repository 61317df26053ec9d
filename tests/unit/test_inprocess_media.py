"""Media in a plain process: kept in memory, by the same ids, and shown to models like what a store keeps."""

from __future__ import annotations

import json

import pytest

from perdure import StructuredToolResult, ToolMedia, agent, present
from perdure.errors import UnknownContent
from perdure.execution import loop
from perdure.inprocess.media import MemoryContents
from perdure.uap.content_refs import content_path
from perdure.upp import LLMRequest, ToolContext, tool
from perdure.upp.content import ImageBlock, TextBlock
from perdure.upp.media_source import BytesSource, UrlSource
from perdure.upp.messages import UserMessage
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.tool_call import ToolExecution
from perdure.upp.tool_media import ToolContent

PNG = b"\x89PNG bytes"
NOBODYS = "550e8400-e29b-41d4-a716-446655440000"


@tool(effect="none")
def draw() -> StructuredToolResult:
    """Draw."""
    return StructuredToolResult([ToolMedia("image/png", PNG, filename="x.png")], "drawn")


@tool(effect="none")
async def look(content_id: str, context: ToolContext) -> int:
    """Look."""
    return len((await context.read_content(content_id)).data or b"")


async def drawn_id() -> str:
    """The id of a picture that a run has made."""
    artist = agent(model=scripted([Answer(tool_calls=[call("draw")]), "Done."]), tools=[draw], execution=loop())
    (made,) = (await artist.run("Draw.")).tool_executions
    assert made.content is not None
    (item,) = made.content.media
    assert item.data == PNG
    assert made.result == {"result": "drawn", "content_items": [item.to_json()]}
    return str(item.content_id)


async def test_tools_make_read_and_present_media() -> None:
    """And a turn's executions have the bytes, which no JSON of it has."""
    ident = await drawn_id()
    calls = [call("look", content_id=ident), call("present", content_ids=[ident]), call("look", content_id=NOBODYS)]
    viewer = agent(model=scripted([Answer(tool_calls=calls), "Done."]), tools=[look, present], execution=loop())
    turn = await viewer.run("Look.")
    looked, shown, unknown = turn.tool_executions
    assert looked.result == len(PNG)
    assert shown.content is not None
    assert shown.content.presented
    assert unknown.is_error
    assert NOBODYS in str(unknown.result)
    assert PNG.decode("latin-1") not in json.dumps(turn.to_json())


async def test_a_model_is_shown_the_bytes_that_a_message_names() -> None:
    ident = await drawn_id()
    seen: list[LLMRequest] = []

    def see(request: LLMRequest) -> str:
        seen.append(request)
        return "A square."

    viewer = agent(model=scripted(see), execution=loop())
    given = UserMessage([TextBlock("See."), ImageBlock(UrlSource(content_path(ident)), "image/jpeg")])
    turn = await viewer.run(given)
    assert seen[0].messages[-1].images == [ImageBlock(BytesSource(PNG), "image/png")]
    assert turn.messages[0] is given or turn.messages[0].images == given.images
    with pytest.raises(UnknownContent, match=NOBODYS):
        await viewer.run(UserMessage([ImageBlock(UrlSource(content_path(NOBODYS)), "image/png")]))


async def test_memory_keeps_what_was_used_last() -> None:
    kept = MemoryContents(most_bytes=25)

    def keep(name: str) -> None:
        media = ToolMedia("a/b", b"0123456789", content_id=name)
        kept.keep(ToolExecution("t", "c", {}, None, False, 0, content=ToolContent((media,))))

    for name in ("one", "two", "two"):
        keep(name)
    found = await kept.find("one")
    assert found is not None
    assert (found.data, found.size_bytes) == (None, 10)
    keep("three")
    assert await kept.read("two") is None
    assert [media.data for media in (await kept.read("one"), await kept.read("three")) if media] == [b"0123456789"] * 2
