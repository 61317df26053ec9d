"""A Gemini model that can be called, and the provider it belongs to."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from perdure.upp.json_value import JSONObject
from perdure.upp.keys import require_key
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._answer import cut_stream, refuse
from perdure.upp.providers._http import VendorRequest, error_in_stream, post_json, stream_events
from perdure.upp.providers.google.endpoint import PROVIDER, model_url
from perdure.upp.providers.google.errors import classify
from perdure.upp.providers.google.request import build_body, check_structure_with_tools
from perdure.upp.providers.google.response import AnswerReader
from perdure.upp.providers.google.schema import check_schema
from perdure.upp.stream import StreamEvent, message_stop
from perdure.upp.tools import Tool

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_NAME = re.compile(r"[a-zA-Z_].*")


def google(model_id: str, *, config: ProviderConfig | None = None, short: bool = False) -> ModelReference:
    """Returns a Gemini model.

    Args:
        model_id: as "gemini-3-pro-preview", also with "models/" or "tunedModels/" before it.
        config: how the Gemini API is reached; by default with the key in GOOGLE_API_KEY or GEMINI_API_KEY.
        short: it answers within a second; see ModelReference.
    """
    return ModelReference(model_id, GoogleProvider(), {}, config, short)


class GoogleProvider:
    """Google's models."""

    name = PROVIDER
    version = "1"

    def bind(self, model_id: str, options: Mapping[str, object]) -> GoogleModel:
        """Returns the model; there are no options."""
        if options:
            raise refuse(f"the provider has no option {', '.join(options)}; give params with the request", PROVIDER)
        if not model_id.strip():
            raise refuse("the model's id is empty", PROVIDER)
        return GoogleModel(model_id)


class GoogleModel:
    """A Gemini model; see `google`."""

    provider = PROVIDER
    capabilities = LLMCapabilities(True, True, True, True, True, True, True, True)

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Refuses names that do not begin with a letter or `_`, and schemas that Gemini does not follow."""
        for tool in tools:
            if _NAME.fullmatch(tool.name) is None:
                raise refuse(f"tool '{tool.name}': Gemini wants a name that begins with a letter or '_'", PROVIDER)
            check_schema(tool.parameters, f"tool '{tool.name}'")
        if structure is not None:
            check_schema(structure, "the structured answer's schema")
            if tools:
                check_structure_with_tools(self.model_id)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer."""
        vendor = await self._prepare(request, "generateContent")
        reader = AnswerReader()
        _read(reader, vendor, await post_json(vendor))
        return reader.response(request)

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer as it comes; a call's arguments come in one piece."""
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        vendor = await self._prepare(request, "streamGenerateContent", "alt=sse")
        reader = AnswerReader()
        async with aclosing(stream_events(vendor)) as chunks:
            async for chunk in chunks:
                for event in _read(reader, vendor, chunk.data):
                    yield event
        if not reader.finished:
            raise cut_stream(PROVIDER)
        response = reader.response(request)
        yield message_stop()
        yield response

    async def _prepare(self, request: LLMRequest, method: str, query: str = "") -> VendorRequest:
        config = request.config or ProviderConfig()
        body = build_body(request, self.model_id)
        key = await require_key(config.api_key, _KEYS, PROVIDER)
        url = model_url(config, self.model_id, method, query)
        return VendorRequest(PROVIDER, url, body, config, {"x-goog-api-key": key}, (key,), classify)


def _read(reader: AnswerReader, vendor: VendorRequest, chunk: JSONObject) -> list[StreamEvent]:
    if chunk.get("error") is not None:
        raise error_in_stream(vendor, chunk["error"])
    return reader.read(chunk)
