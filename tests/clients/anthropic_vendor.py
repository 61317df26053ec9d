"""Requests to the Anthropic adapter, and its vendor's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.stream import StreamEvent, StreamEventType
from perdure.upp.tools import Tool
from tests.clients.adapters import read_stream
from tests.clients.vendor_server import Reply, VendorServer, json_reply, sse_reply

FIXTURES = Path(__file__).parent / "fixtures" / "anthropic"
BOTH = sorted(path.stem for path in FIXTURES.glob("*.json"))
KEY = "sk-ant-api03-secret"
PERSON: JSONObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
OPEN_PERSON: JSONObject = {**PERSON, "additionalProperties": True}
WEATHER = Tool("get_weather", "Says the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}, str)


def whole(name: str) -> Reply:
    return json_reply(json.loads((FIXTURES / f"{name}.json").read_text()))


def streamed(name: str, *, piece: int | None = None) -> Reply:
    return sse_reply((FIXTURES / f"{name}.sse").read_bytes(), piece=piece)


def model(model_id: str = "claude-sonnet-4-6") -> BoundLLMModel:
    return anthropic(model_id).bind()


def asked(vendor: VendorServer, *messages: Message, **fields: Any) -> LLMRequest:
    fields.setdefault("config", ProviderConfig(api_key=KEY, base_url=vendor.url))
    return LLMRequest(list(messages) or [UserMessage("hi")], **fields)


async def complete(vendor: VendorServer, name: str, **fields: Any) -> LLMResponse:
    vendor.replies(whole(name))
    return await model().complete(asked(vendor, **fields))


async def stream(vendor: VendorServer, name: str, **fields: Any) -> tuple[list[StreamEvent], LLMResponse]:
    vendor.replies(streamed(name))
    return await read_stream(model(), asked(vendor, **fields))


def of_type(events: list[StreamEvent], kind: StreamEventType) -> str:
    parts = [event.delta.text or event.delta.arguments_json or "" for event in events if event.type is kind]
    return "".join(parts)
