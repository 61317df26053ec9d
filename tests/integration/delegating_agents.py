"""Agents that hand tasks to others. What each model says is told by its input's JSON; what it was asked is in the ledger.

Input: {"name": the test's own, "script": [what it answers, in order: a text, or a list of {"tool", "arguments"}],
"latency": seconds of a model call, "thinks": what it thinks before each answer}. `$0` in attachments stands for the first
id of media that the conversation names, and so on. A task that is no such input is answered by what is seen of it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from perdure import App, StructuredToolResult, ToolMedia, agent, delegate
from perdure.execution import loop
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.content import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, TextBlock
from perdure.upp.media_source import Base64Source, BytesSource, TextSource
from perdure.upp.messages import Message, ToolResultMessage, UserMessage
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger
from tests.integration.custom_strategies import Custom

PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000")
_TOLD = re.compile(r"\[content ids of the media [^:]*: ([^\]]*)\]")


def ids_in(messages: Sequence[Message]) -> list[str]:
    """The ids of media that a model is told of, in order."""
    found: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            results = (one.result for one in message.results)
            items = [
                item
                for one in results
                if isinstance(one, dict)
                for item in cast("list[Any]", one.get("content_items", []))
            ]
            found += [str(item["content_id"]) for item in items]
        else:
            found += [ident for line in _TOLD.findall(message.text) for ident in line.split(", ")]
    return found


def seen(message: Message) -> str:
    """What a model sees of its input."""
    return "; ".join(_shown(block) for block in message.blocks())


def _shown(block: ContentBlock) -> str:
    match block:
        case TextBlock():
            return block.text
        case ImageBlock() | DocumentBlock():
            source = block.source
            assert isinstance(source, Base64Source | BytesSource | TextSource), "a model gets the bytes"
            data = source.data
            raw = base64.b64decode(data) if isinstance(source, Base64Source) else data
            return f"{block.type} {_hash(raw)}"
        case AudioBlock():
            return f"audio {_hash(block.data)}"
        case _:
            return str(block.type)


def _hash(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:8]


def model_of(who: str) -> Callable[[LLMRequest], Awaitable[Answer]]:
    """A model that follows its input's script."""

    async def answer(request: LLMRequest) -> Answer:
        last = max(place for place, message in enumerate(request.messages) if isinstance(message, UserMessage))
        given = sum(message.type == "assistant" for message in request.messages[last:])
        message = request.messages[last]
        words = next((block.text for block in message.blocks() if isinstance(block, TextBlock)), "")
        spec: dict[str, Any] = json.loads(words) if words.startswith("{") else {"script": [seen(message)]}
        write_ledger("model", spec.get("name", ""), who=who, number=given)
        await asyncio.sleep(spec.get("latency", 0))
        item = cast("str | list[dict[str, Any]]", spec["script"][given])
        if isinstance(item, str):
            return Answer(item, reasoning=spec.get("thinks"))
        known = ids_in(request.messages)
        calls = [
            ToolCall(f"call_{given}_{n}", one["tool"], _filled(one["arguments"], known)) for n, one in enumerate(item)
        ]
        return Answer("", tool_calls=calls, reasoning=spec.get("thinks"))

    return answer


def _filled(arguments: Any, known: list[str]) -> Any:
    whole = cast("dict[str, Any]", arguments)
    if not isinstance(arguments, dict) or not isinstance(whole.get("attachments"), list):
        return whole
    filled = [known[int(one[1:])] if one.startswith("$") else one for one in whole["attachments"]]
    return {**whole, "attachments": filled}


def hand(who: str, task: str, *attachments: str) -> dict[str, Any]:
    """A call that hands a task on."""
    more = {"attachments": list(attachments)} if attachments else {}
    return {"tool": "delegate", "arguments": {"agent": who, "task": task, **more}}


def told(name: str, *script: Any, **more: Any) -> str:
    """An input, or a task, that says what the model does."""
    return json.dumps({"name": name, "script": list(script), **more})


@tool(effect="none")
async def paint(words: str) -> StructuredToolResult:
    """Paint what the words say."""
    return StructuredToolResult([ToolMedia("image/png", PIXEL + words.encode())], "painted")


STEPS = loop(max_iterations=20)
digger = agent(name="digger", model=scripted(model_of("digger")), execution=STEPS, system="Dig. And dig.")
researcher = agent(
    name="researcher", model=scripted(model_of("researcher")), tools=[digger, delegate(digger)], execution=STEPS,
    system="Look things up.",
)  # fmt: skip
viewer = agent(name="fine.viewer", model=scripted(model_of("viewer")), description="Says what it sees", execution=STEPS)
lead = agent(
    name="lead", model=scripted(model_of("lead")), tools=[paint, delegate(researcher, viewer)], execution=STEPS,
)  # fmt: skip
own = agent(name="own", model=scripted(model_of("own")), tools=[paint, delegate(viewer)], execution=Custom())
app = App(agents=[lead, own])
