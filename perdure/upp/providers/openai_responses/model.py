"""A model that is reached through the Responses API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._answer import cut_stream
from perdure.upp.providers._bearer import bearer_key
from perdure.upp.providers._http import VendorRequest, endpoint, linger, post_json, stream_events
from perdure.upp.providers._openai_tools import check_tools
from perdure.upp.providers.openai_responses.dialect import Dialect
from perdure.upp.providers.openai_responses.request import build_body
from perdure.upp.providers.openai_responses.response import read_response
from perdure.upp.providers.openai_responses.stream import ResponseStream
from perdure.upp.stream import StreamEvent
from perdure.upp.tools import Tool


@dataclass(frozen=True, slots=True)
class ResponsesModel:
    """A model of a service that speaks the Responses API; it opens no connection before it is called.

    Unless params say otherwise, the vendor is told to keep no answer, and its reasoning travels, encrypted, in the
    messages' metadata: a conversation can go on for as long as the caller has it, not for as long as the vendor does.

    Attributes:
        model_id: the service's name of the model.
        dialect: the service.
    """

    model_id: str
    dialect: Dialect

    @property
    def provider(self) -> str:
        return self.dialect.provider

    @property
    def capabilities(self) -> LLMCapabilities:
        return self.dialect.capabilities

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        check_tools(tools, structure, self.provider, checks_open_schemas=self.dialect.checks_open_schemas)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        sent = await self._request(request, stream=False)
        return read_response(await post_json(sent), request, sent)

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        sent = await self._request(request, stream=True)
        answer = ResponseStream(sent)
        async with aclosing(stream_events(sent)) as events:
            async for event in events:
                for part in answer.read(event):
                    yield part
                if answer.response is not None:
                    await linger(events)
                    break
        if answer.response is None:
            raise cut_stream(self.provider)
        yield read_response(answer.response, request, sent)

    async def _request(self, request: LLMRequest, *, stream: bool) -> VendorRequest:
        dialect, config = self.dialect, request.config or ProviderConfig()
        body = build_body(request, self.model_id, dialect, stream=stream)
        key = await bearer_key(config, dialect.base_url, dialect.key_variables, dialect.provider)
        return VendorRequest(
            provider=dialect.provider,
            url=endpoint(config.base_url, dialect.base_url, "/responses"),
            body=body,
            config=config,
            headers={**({"Authorization": f"Bearer {key}"} if key else {}), **dialect.headers},
            secrets=[key] if key else [],
            classify=dialect.classify,
        )
