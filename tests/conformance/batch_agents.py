"""Agents for what is said of Chat Completions. What a model does is said by its input's words and the tools that it has.

It calls `get_weather` for each city of the input, `get_time` if that says "time", and any tool that is forced; after
results it tells them. Words of the input that begin with `#` make it do otherwise: `#slow` answers word by word,
`#parts` tells what media it was given, `#seen` all that it was sent, `#json` answers in JSON, `#cut` stops for length,
`#own` calls the agent's own tool, `#long` calls with long arguments, `#fail` fails.
"""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

from perdure import App, agent
from perdure.upp import (
    AssistantMessage,
    ErrorCode,
    LLMRequest,
    ToolCall,
    ToolResultMessage,
    UPPError,
    UserMessage,
    tool,
)
from perdure.upp.content import AudioBlock, BinaryBlock, ContentBlock, DocumentBlock, ImageBlock, VideoBlock
from perdure.upp.json_value import sha256_hex
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import Message
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted

CITIES = ("Tokyo", "Paris", "London")
WORDS = 60
LONG = 1000
"""So often a city is said where arguments are to be long."""


def _model(request: LLMRequest) -> Answer:
    last = request.messages[-1]
    said = next((message.text for message in reversed(request.messages) if isinstance(message, UserMessage)), "")
    _note(said)
    if isinstance(last, ToolResultMessage):
        return Answer(text=f"The tools say: {'; '.join(result.text for result in last.results)}.")
    if "#fail" in said:
        raise UPPError(
            "the vendor is out of order", ErrorCode.RATE_LIMITED if "#limit" in said else ErrorCode.PROVIDER_ERROR
        )
    calls = _calls(request, said)
    if calls:
        return Answer(text="Let me look. " if "#text" in said else "", tool_calls=calls)
    return Answer(text=_answer(request, said), stop_reason="max_tokens" if "#cut" in said else None)


def _calls(request: LLMRequest, said: str) -> list[ToolCall]:
    names = [tool.name for tool in request.tools]
    match request.tool_choice:
        case "none":
            return []
        case {"name": str(name)}:
            return [_call(0, name, {"location": "Tokyo"})]
        case _:
            pass
    asked: list[tuple[str, dict[str, Any]]] = []
    if "get_weather" in names:
        asked += [("get_weather", {"location": city}) for city in CITIES if city in said]
    if "get_time" in names and "time" in said:
        asked.append(("get_time", {}))
    if "#long" in said:
        asked = [(name, {"location": city * LONG}) for name, _ in asked for city in CITIES[:2]]
    if "#own" in said:
        asked.append(("add", {"a": 2, "b": 3}))
    if "#alone" in said:
        asked.append(("add_alone", {"a": 4, "b": 5}))
    return [_call(place, name, arguments) for place, (name, arguments) in enumerate(asked)]


def _call(place: int, name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(f"call_{place}", name, arguments)  # as vendors do that use ids again


def _answer(request: LLMRequest, said: str) -> str:
    if "#seen" in said:
        told = [{"type": str(message.type), "text": message.text} for message in request.messages]
        return json.dumps({"system": request.system, "params": request.params, "messages": told})
    if "#parts" in said:
        return json.dumps([_part(block) for message in request.messages for block in message.blocks()])
    if "#json" in said:
        return json.dumps({"city": "Tokyo", "format": (request.response_format or {}).get("type")})
    if "#slow" in said:
        return " ".join(f"word{number}" for number in range(WORDS))
    system = f"[{request.system}] " if request.system else ""
    return f"{system}{' | '.join(_words(message) for message in request.messages)}"


def _words(message: Message) -> str:
    who = "I said" if isinstance(message, AssistantMessage) else "you said"
    return f"{who}: {message.text}"


def _part(block: ContentBlock) -> list[str]:
    match block:
        case ImageBlock() | DocumentBlock():
            return [str(block.type), block.mime_type, _source(block.source)]
        case AudioBlock() | VideoBlock() | BinaryBlock():
            return [str(block.type), block.mime_type, sha256_hex(block.data)]
        case _:
            return [str(block.type)]


def _source(source: Base64Source | UrlSource | BytesSource | TextSource) -> str:
    match source:
        case UrlSource():
            return source.url
        case BytesSource():
            return sha256_hex(source.data)
        case Base64Source():
            return sha256_hex(base64.b64decode(source.data))
        case TextSource():
            return sha256_hex(source.data.encode())


def _note(said: str) -> None:
    """Each model call that names itself (`#call=x`) writes its name down."""
    found = re.search(r"#call=(\w+)", said)
    if found is not None:
        with Path(os.environ["PERDURE_TEST_LEDGER"]).open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps({"name": found[1], "kind": "model"}) + "\n")


@tool(effect="none")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="none", sequential=True)
def add_alone(a: int, b: int) -> int:
    """Add two numbers, once all that was called before has its result."""
    return a + b


echo = agent(name="echo-agent", model=scripted(_model, chunk_size=5, chunk_delay=0.03), tools=[add, add_alone])
app = App(agents=[echo])
