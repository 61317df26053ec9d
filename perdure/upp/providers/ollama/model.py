"""The Ollama model: sends what `request` writes and reads it with `response` and `stream`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.keys import resolve_key
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._answer import cut_stream, refuse
from perdure.upp.providers._http import VendorRequest, endpoint, error_in_stream, post_json, stream_lines
from perdure.upp.providers.ollama.request import PROVIDER, WITH_TOOLS, build_body
from perdure.upp.providers.ollama.response import read_answer, to_response
from perdure.upp.providers.ollama.schema import check_structure, check_tool
from perdure.upp.providers.ollama.stream import AnswerSoFar
from perdure.upp.stream import StreamEvent, message_start, message_stop
from perdure.upp.tools import Tool

_DEFAULT_URL = "http://localhost:11434"
_PATH = "/api/chat"
_KEY_VARIABLES = ("OLLAMA_API_KEY",)


class OllamaProvider:
    """The models of an Ollama server."""

    name = PROVIDER
    version = "1"

    def bind(self, model_id: str, options: Mapping[str, object]) -> OllamaModel:
        """Returns the model. Raises UPPError if an option is given; Ollama's adapter has none."""
        if options:
            raise refuse(f"ollama has no option {', '.join(options)}; give model parameters as params", PROVIDER)
        return OllamaModel(model_id)


class OllamaModel:
    """A model of an Ollama server."""

    provider = PROVIDER
    capabilities = LLMCapabilities(image_input=True)

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Raises UPPError INVALID_REQUEST if Ollama cannot read a tool's schema or hold an answer to the structure."""
        for tool in tools:
            check_tool(tool)
        if structure is not None:
            check_structure(structure)
            if tools:
                raise refuse(WITH_TOOLS, PROVIDER)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer, whole. Raises UPPError."""
        vendor = await self._vendor_request(request, stream=False)
        try:
            answer = read_answer(await post_json(vendor))
        except UPPError as error:
            if error.code is ErrorCode.MODEL_NOT_FOUND:
                raise self._not_pulled(error) from error
            raise
        if answer.error is not None:
            raise error_in_stream(vendor, answer.error)
        return to_response(answer, request)

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer as it comes."""
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        vendor = await self._vendor_request(request, stream=True)
        so_far = AnswerSoFar()
        try:
            async with aclosing(stream_lines(vendor)) as lines:
                async for line in lines:
                    piece = read_answer(line)
                    if piece.error is not None:
                        raise error_in_stream(vendor, piece.error)
                    if so_far.empty:
                        yield message_start()
                    for event in so_far.add(piece):
                        yield event
        except UPPError as error:
            if error.code is ErrorCode.MODEL_NOT_FOUND:
                raise self._not_pulled(error) from error
            raise
        answer = so_far.whole()
        if answer is None:
            raise cut_stream(PROVIDER)
        yield message_stop()
        yield to_response(answer, request)

    def _not_pulled(self, error: UPPError) -> UPPError:
        remedy = f"fetch it with `ollama pull {self.model_id}`, or look at base_url"
        return UPPError(f"{error.message}; {remedy}", error.code, PROVIDER, status_code=error.status_code, cause=error)

    async def _vendor_request(self, request: LLMRequest, *, stream: bool) -> VendorRequest:
        config = request.config or ProviderConfig()
        body = build_body(self.model_id, request, stream=stream)
        key = await resolve_key(config.api_key, _KEY_VARIABLES, PROVIDER)
        return VendorRequest(
            provider=PROVIDER,
            url=endpoint(config.base_url, _DEFAULT_URL, _PATH),
            body=body,
            config=config,
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            secrets=() if key is None else (key,),
        )
