"""A model behind a Chat Completions API. Source: OpenAI, Chat Completions; UPP-1.2, BoundLLMModel."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._bearer import bearer_key
from perdure.upp.providers._http import VendorRequest, endpoint, error_in_stream, post_json, stream_events
from perdure.upp.providers._openai_tools import check_tools
from perdure.upp.providers.openai_completions.dialect import Dialect
from perdure.upp.providers.openai_completions.request import to_body
from perdure.upp.providers.openai_completions.response import error_of, read_answer
from perdure.upp.providers.openai_completions.stream import Fold
from perdure.upp.stream import StreamEvent, message_stop
from perdure.upp.tools import Tool

_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class CompletionsModel:
    """A model of a vendor that speaks Chat Completions.

    Attributes:
        model_id: the vendor's name of the model.
        dialect: the vendor.
    """

    model_id: str
    dialect: Dialect

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.dialect.provider

    @property
    def capabilities(self) -> LLMCapabilities:
        """What the model can do."""
        return self.dialect.capabilities

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Looks for what the vendor would refuse. Raises UPPError INVALID_REQUEST."""
        check_tools(tools, structure, self.provider, checks_open_schemas=self.dialect.checks_open_schemas)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer, whole. Raises UPPError."""
        call = await self._to_vendor(request, stream=False)
        answer = await post_json(call)
        error = error_of(answer)
        if error is not None:
            raise error_in_stream(call, error)
        return read_answer(answer, request, self.provider)

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer as it comes. Raises UPPError while it is read."""
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        call = await self._to_vendor(request, stream=True)
        fold = Fold(self.provider)
        async with aclosing(stream_events(call)) as chunks:
            async for chunk in chunks:
                error = error_of(chunk.data)
                if error is not None:
                    raise error_in_stream(call, error)
                for event in fold.add(chunk.data):
                    yield event
        response = read_answer(fold.answer(), request, self.provider)
        yield message_stop()
        yield response

    async def _to_vendor(self, request: LLMRequest, *, stream: bool) -> VendorRequest:
        config = request.config or ProviderConfig()
        body = to_body(request, self.model_id, self.dialect, stream=stream)
        key = await bearer_key(config, self.dialect.base_url, self.dialect.key_variables, self.provider)
        return VendorRequest(
            provider=self.provider,
            url=endpoint(config.base_url, self.dialect.base_url, _PATH),
            body=body,
            config=config,
            headers={**self.dialect.headers, **({"Authorization": f"Bearer {key}"} if key else {})},
            secrets=[key] if key else [],
            classify=self.dialect.classify,
        )
