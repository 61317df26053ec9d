"""The agents that the checks of UAMP are made against. Their model does what the user's last text says.

A text that is JSON with "plan" is a list of answers, one after the other as the tools' results come back: each an object
with "think" (a text), "say" (a text, or a list of texts and of {"gate": a name}), "times" (how often it says that), "speak" (so many tenths of a second of
sound, half of it before what is said), "paint" (so many bytes of an image, in some pieces), "calls" (a list of {"tool", "arguments", "id"?}), "usage" ([input, output, cached])
and "fail" (a code of UPP). A gate is passed once its file is in
the folder `PERDURE_UAMP_GATES`. The text "mirror" is answered by all that the model was given, as JSON; "formed" by what fits the
form that is asked for; any other by "echo: " and itself. Text comes in deltas of a word.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

from perdure import App, agent
from perdure.payments import Paid
from perdure.upp import (
    AssistantMessage,
    AudioBlock,
    BytesSource,
    ErrorCode,
    ImageBlock,
    LLMRequest,
    Message,
    ReasoningBlock,
    TextBlock,
    TokenUsage,
    ToolCall,
    ToolResultMessage,
    UPPError,
    tool,
)
from perdure.upp.provider import LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.providers.script import respond
from perdure.upp.providers.scripted import ScriptedModel, ScriptedProvider
from perdure.upp.stream import (
    EventDelta,
    StreamEvent,
    StreamEventType,
    content_block_start,
    content_block_stop,
    message_start,
    message_stop,
    reasoning_delta,
    text_delta,
    tool_call_delta,
)

MIRROR = "mirror"
FORMED = "formed"
TENTH_BYTES = 4800
"""Of a tenth of a second: pcm16 at 24 kHz."""
_STROKE = 40_000
"""Bytes of an image in one delta."""

_FRAGMENT = 7
"""Characters of a call's arguments in one delta."""


def plan(*answers: dict[str, Any], name: str = "") -> str:
    """The text that has the model give these answers; a name makes it another text."""
    return json.dumps({"plan": list(answers), "name": name})


def painting(size: int) -> bytes:
    """The image of a plan."""
    return (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * (size // 256 + 1))[:size]


def gate(name: str) -> dict[str, str]:
    """A place in what is said at which the model waits."""
    return {"gate": name}


def call(tool_name: str, ident: str | None = None, **arguments: Any) -> dict[str, Any]:
    """A call of a plan."""
    return {"tool": tool_name, "arguments": arguments, **({} if ident is None else {"id": ident})}


async def passed(name: str) -> None:
    """Returns once a gate is open."""
    while not (Path(os.environ["PERDURE_UAMP_GATES"]) / name).exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def _planned(request: LLMRequest) -> tuple[dict[str, Any], int]:
    """The answer that is due, and which of its plan it is."""
    last = max((place for place, message in enumerate(request.messages) if message.type == "user"), default=None)
    if last is None:
        return {"say": "hello"}, 0
    given = sum(1 for message in request.messages[last:] if message.type == "assistant")
    texts = [block.text for block in request.messages[last].blocks() if isinstance(block, TextBlock)]
    text = texts[-1] if texts else ""
    if text == MIRROR:
        return {"say": json.dumps(_mirrored(request))}, given
    if text == FORMED:
        return {"say": _formed(request)}, given
    if text.startswith('{"plan"'):
        answers = cast("list[dict[str, Any]]", json.loads(text)["plan"])
        return answers[given], given
    return {"say": f"echo: {text}"}, given


def _mirrored(request: LLMRequest) -> dict[str, Any]:
    """What the model was given; of media the hash of its bytes."""
    return {
        "system": request.system,
        "tools": [
            {"name": one.name, "description": one.description, "parameters": one.parameters} for one in request.tools
        ],
        "params": request.params,
        "messages": [_message(message) for message in request.messages],
    }


def _message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.type, "items": [], "metadata": message.metadata}
    if isinstance(message, ToolResultMessage):
        told["results"] = [
            {"call_id": one.tool_call_id, "result": one.text, "is_error": one.is_error} for one in message.results
        ]
        return told
    told["items"] = [_hashed(block.to_json()) for block in message.blocks()]
    if isinstance(message, AssistantMessage):
        told["calls"] = [{"id": one.tool_call_id, "tool": one.tool_name} for one in message.tool_calls or ()]
    return told


def _hashed(value: Any) -> Any:
    """JSON with the hash of bytes in place of what is base64."""
    if not isinstance(value, dict):
        return value
    items = dict(cast("dict[str, Any]", value))
    if "data" in items and items.get("type") != "text":
        items["sha256"] = hashlib.sha256(base64.b64decode(items.pop("data"))).hexdigest()
    return {name: _hashed(item) for name, item in items.items()}


def _formed(request: LLMRequest) -> str:
    """What fits the form that is asked for, as a real model would give it."""
    asked = request.response_format or {}
    if request.structure is not None or asked.get("type") == "json_schema":
        return '{"city": "Paris", "inhabitants": 2102650}'
    return '{"any": "object"}' if asked.get("type") == "json_object" else "free text"


class PlannedModel(ScriptedModel):
    """Says what its plan has; what is said comes in deltas of a word, and waits at gates."""

    def __init__(self, name: str) -> None:
        super().__init__([], name, 0.0, None, 0.0, None)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        return await self.stream(request).response()

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        return LLMStreamResult(_told(request))


async def _told(request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
    answer, number = _planned(request)
    blocks: list[ReasoningBlock | TextBlock | AudioBlock | ImageBlock] = []
    yield message_start()
    chunks = [bytes([number]) * TENTH_BYTES for number in range(answer.get("speak", 0))]
    if chunks:
        yield content_block_start(0)
        blocks.append(AudioBlock(b"".join(chunks), "audio/pcm"))
    for chunk in chunks[: len(chunks) // 2]:
        yield StreamEvent(StreamEventType.AUDIO_DELTA, 0, EventDelta(data=chunk))
    for kind, parts in (("think", answer.get("think", [])), ("say", answer.get("say", []))):
        text = ""
        told: list[str | dict[str, str]] = (
            [parts] if isinstance(parts, str) else cast("list[str | dict[str, str]]", parts)
        )
        for part in told * (answer.get("times", 1) if kind == "say" else 1):
            if not isinstance(part, str):
                await passed(part["gate"])
                continue
            if not text:
                yield content_block_start(len(blocks))
            for word in _words(part):
                text += word
                yield (reasoning_delta if kind == "think" else text_delta)(word, len(blocks))
        if text:
            yield content_block_stop(len(blocks))
            blocks.append(ReasoningBlock(text) if kind == "think" else TextBlock(text))
    for chunk in chunks[len(chunks) // 2 :]:
        yield StreamEvent(StreamEventType.AUDIO_DELTA, 0, EventDelta(data=chunk))
    image = painting(answer.get("paint", 0))
    for start in range(0, len(image), _STROKE):
        data = image[start : start + _STROKE]
        yield StreamEvent(StreamEventType.IMAGE_DELTA, len(blocks), EventDelta(data=data))
    if image:
        blocks.append(ImageBlock(BytesSource(image), "image/png"))
    if "fail" in answer:
        raise UPPError(str(answer["fail"]), ErrorCode(answer["fail"]), "scripted")
    calls = [
        ToolCall(one.get("id", f"call_{number}_{place}"), one["tool"], one["arguments"])
        for place, one in enumerate(cast("list[dict[str, Any]]", answer.get("calls", [])))
    ]
    for place, one in enumerate(calls, len(blocks)):
        yield content_block_start(place)
        text = json.dumps(one.arguments)
        for start in range(0, len(text), _FRAGMENT):
            yield tool_call_delta(one.tool_call_id, one.tool_name, text[start : start + _FRAGMENT], place)
        yield content_block_stop(place)
    yield message_stop()
    yield _response(request, AssistantMessage([*blocks], calls or None), answer, number)


def _response(request: LLMRequest, message: AssistantMessage, answer: dict[str, Any], number: int) -> LLMResponse:
    response = respond(request, message, number)
    if "usage" not in answer:
        return response
    used, made, cached = cast("list[int]", answer["usage"])
    return dataclasses.replace(response, usage=TokenUsage(used, made, used + made, cached))


def _words(text: str) -> list[str]:
    """A text's words, each with the space behind it."""
    return re.findall(r"\S+\s*|\s+", text)


def planned(name: str = "planned") -> ModelReference:
    """The model."""
    return ModelReference(name, ScriptedProvider(PlannedModel(name)))


@tool(effect="none")
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


@tool(effect="none")
async def waiting(name: str) -> str:
    """Return once a gate is open."""
    await passed(name)
    return f"{name} is open"


@tool(effect="none")
def failing(reason: str) -> str:
    """Fail."""
    raise RuntimeError(reason)


SYSTEM = "Do as you are told."
assistant = agent(name="assistant", model=planned(), system=SYSTEM, tools=[weather, waiting, failing])
changing = agent(name="changing", model=planned(os.environ.get("PERDURE_UAMP_MODEL", "first-model")), system=SYSTEM)

PAID_MODEL = "paid-model"
PRICES = {"scripted": {PAID_MODEL: {"input": "1", "output": "2"}}}
"""USD for 1,000 tokens: 10 in and 5 out are 0.02."""
paid = agent(name="paid", model=planned(PAID_MODEL), system=SYSTEM, tools=[weather])
hasty = agent(name="hasty", model=planned(PAID_MODEL), system=SYSTEM)
app = App(
    agents=[assistant, changing, paid, hasty],
    paid={"paid": Paid(hold="0.05", low_balance="0.5"), "hasty": Paid(hold="0.05", wait_s=1.0)},
)
