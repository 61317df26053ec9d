"""Every adapter, with an answer of its vendor, for tests of what all of them must do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMResponse
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.providers.google import google
from perdure.upp.providers.ollama import ollama
from perdure.upp.providers.openai import openai
from perdure.upp.providers.openrouter import openrouter
from perdure.upp.stream import StreamEvent
from tests.clients.vendor_server import Reply, VendorServer, json_reply

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter.

    Attributes:
        model: one of its models.
        fixtures: the folder of its vendor's answers.
    """

    model: BoundLLMModel
    fixtures: str

    def answer(self) -> Reply:
        """Returns a good answer in text."""
        return json_reply(json.loads((FIXTURES / self.fixtures / "text.json").read_text(encoding="utf-8")))

    def request(self, vendor: VendorServer, messages: Sequence[Message] = (), **fields: Any) -> LLMRequest:
        """Returns a request to the vendor on this machine."""
        config = ProviderConfig(api_key="sk-of-the-test-0123456789", base_url=vendor.url)
        return LLMRequest(messages or [UserMessage("hi")], config=config, **fields)

    async def sent(self, vendor: VendorServer, messages: Sequence[Message] = (), **fields: Any) -> Any:
        """Asks, and returns the body that the vendor received."""
        vendor.replies(self.answer())
        await self.model.complete(self.request(vendor, messages, **fields))
        return vendor.received[-1].json()


ADAPTERS = {
    "anthropic": Adapter(anthropic("claude-sonnet-4-6").bind(), "anthropic"),
    "completions": Adapter(openai("gpt-5-mini", api="completions").bind(), "openai_completions"),
    "responses": Adapter(openai("gpt-5-mini").bind(), "openai_responses"),
    "openrouter completions": Adapter(openrouter("openai/gpt-5-mini").bind(), "openai_completions"),
    "openrouter responses": Adapter(openrouter("openai/gpt-5-mini", api="responses").bind(), "openai_responses"),
    "google": Adapter(google("gemini-3-pro-preview").bind(), "google"),
    "ollama": Adapter(ollama("qwen3").bind(), "ollama"),
}


async def read_stream(model: BoundLLMModel, request: LLMRequest) -> tuple[list[StreamEvent], LLMResponse]:
    """Returns a stream's events, and the response at its end."""
    stream = model.stream(request)
    events = [event async for event in stream]
    return events, await stream.response()


def plain(response: LLMResponse) -> JSONObject:
    """Returns what a response says, without the time."""
    return {
        "message": {name: value for name, value in response.message.to_json().items() if name != "timestamp"},
        "usage": response.usage.to_json(),
        "stop_reason": response.stop_reason,
    }
