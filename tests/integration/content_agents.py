"""Agents that see, make and show media. What they do is said by the input's JSON; what they saw is in the ledger.

Input: {"name": the test's own, "script": one item for each model call: a text, or a list of {"tool", "arguments"}}.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from typing import Any, cast

from perdure import App, StructuredToolResult, ToolMedia, agent, present
from perdure.execution import loop
from perdure.upp import LLMRequest, ToolCall, ToolContext, tool
from perdure.upp.content import AudioBlock, BinaryBlock, ContentBlock, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.json_value import sha256_hex
from perdure.upp.media_source import Base64Source, BytesSource, TextSource
from perdure.upp.messages import Message, ToolResultMessage
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger


def picture(text: str, size: int = 100) -> bytes:
    """The bytes of an image that tests know."""
    return b"\x89PNG\r\n\x1a\n" + (text.encode() * size)[:size]


def seen(messages: Sequence[Message]) -> list[list[str]]:
    """All media that a request holds: kind, media type and hash, or the source's type where there are no bytes."""
    return [found for message in messages for block in message.blocks() if (found := _seen(block))]


def _seen(block: ContentBlock) -> list[str]:
    match block:
        case AudioBlock() | VideoBlock() | BinaryBlock():
            return [block.type.value, block.mime_type, sha256_hex(block.data)]
        case ImageBlock() | DocumentBlock():
            match block.source:
                case BytesSource(data=data):
                    said = sha256_hex(data)
                case Base64Source(data=text):
                    said = sha256_hex(base64.b64decode(text))
                case TextSource(data=text):
                    said = sha256_hex(text.encode())
                case source:
                    said = source.type.value
            return [block.type.value, block.mime_type, said]
        case _:
            return []


async def _model(request: LLMRequest) -> Answer:
    last = max(
        place for place, message in enumerate(request.messages) if message.type == "user" and message.text[0] == "{"
    )
    said = next(block.text for block in request.messages[last].blocks() if isinstance(block, TextBlock))
    spec = cast("dict[str, Any]", json.loads(said))
    given = sum(1 for message in request.messages[last:] if message.type == "assistant")
    answered = [message for message in request.messages[last:] if isinstance(message, ToolResultMessage)]
    results = [result.text for message in answered for result in message.results]
    write_ledger("model", spec["name"], number=given, media=seen(request.messages), results=results)
    item = spec["script"][given]
    if isinstance(item, str):
        return Answer(text=item)
    calls = [
        ToolCall(f"call_{given}_{index}", one["tool"], _filled(one["arguments"], results))
        for index, one in enumerate(item)
    ]
    return Answer(tool_calls=calls)


def _filled(arguments: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """The arguments; "?" stands for the first content id that a tool has named."""
    if not results:
        return arguments
    named = json.loads(results[0]).get("content_items") or [{"content_id": ""}]
    text = json.dumps(arguments).replace('"?"', json.dumps(named[0]["content_id"]))
    return json.loads(text)


@tool(effect="idempotent")
def draw(name: str, size: int = 100, show: bool = False) -> StructuredToolResult:
    """Draw a picture, the same each time."""
    write_ledger("tool", name, size=size)
    drawn = ToolMedia("image/png", picture(name, size), filename="drawn.png", description=f"a picture of {name}")
    return StructuredToolResult([drawn], {"drawn": name}, present=show)


@tool(effect="idempotent")
def noise(name: str) -> StructuredToolResult:
    """Make sound, another one each time."""
    data = os.urandom(64)
    write_ledger("tool", name, sha256=sha256_hex(data))
    return StructuredToolResult([ToolMedia("audio/wav", data)])


@tool(effect="idempotent")
def screenshot(name: str) -> StructuredToolResult:
    """Take a picture of the screen, for the model to see."""
    return StructuredToolResult([ToolMedia("image/png", picture(name))], for_model=True)


@tool(effect="none")
async def look(content_id: str, context: ToolContext) -> dict[str, Any]:
    """Look at stored media."""
    media = await context.read_content(content_id)
    return {"media_type": media.media_type, "sha256": sha256_hex(media.data or b""), "filename": media.filename}


artist = agent(
    name="artist",
    model=scripted(_model, chunk_size=3),
    tools=[draw, noise, screenshot, look, present],
    execution=loop(),
)

app = App(agents=[artist])
