"""Requests to the Responses adapter, and its vendor's answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai import openai
from perdure.upp.stream import StreamEvent
from perdure.upp.tools import Tool
from tests.clients.adapters import read_stream
from tests.clients.vendor_server import Reply, VendorServer, json_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openai_responses"
ANSWERS = sorted(path.stem for path in FIXTURES.glob("*.json") if path.stem != "failed")
KEY = "sk-test-0123456789"
WEATHER = Tool("get_weather", "Says the weather.", {"type": "object", "properties": {}}, run=print)
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}


def read_fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def whole(name: str) -> Reply:
    return json_reply(read_fixture(name))


def raw(name: str) -> str:
    return (FIXTURES / f"{name}.sse").read_text(encoding="utf-8")


def model(name: str = "gpt-5-mini") -> BoundLLMModel:
    return openai(name).bind()


def asking(vendor: VendorServer, *messages: Any, **fields: Any) -> LLMRequest:
    settings: dict[str, Any] = {"api_key": KEY, "base_url": vendor.url, **fields.pop("config", {})}
    return LLMRequest(messages or [UserMessage("Hi")], config=ProviderConfig(**settings), **fields)


async def complete(vendor: VendorServer, name: str, **fields: Any) -> LLMResponse:
    vendor.replies(whole(name))
    return await model().complete(asking(vendor, **fields))


async def stream(request: LLMRequest) -> tuple[list[StreamEvent], LLMResponse]:
    return await read_stream(model(), request)


async def failure(vendor: VendorServer, reply: Reply, *, streamed: bool = False, **fields: Any) -> UPPError:
    vendor.replies(reply)
    request = asking(vendor, **fields)
    with pytest.raises(UPPError) as caught:
        await (stream(request) if streamed else model().complete(request))
    assert caught.value.provider == "openai"
    return caught.value


def shape(response: LLMResponse) -> Any:
    """An answer without what differs from one reading to the next: times, and ids that are drawn."""
    message = response.message.to_json()
    drawn = re.compile(r"openai_[0-9a-f]{32}")
    text = drawn.sub("drawn", json.dumps({**message, "timestamp": None}))
    return text, response.usage, response.stop_reason, response.data
