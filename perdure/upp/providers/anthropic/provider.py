"""Claude through Anthropic's Messages API. Source: the vendor's Messages API, version 2023-06-01."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import cast

from perdure.upp.json_value import JSONObject
from perdure.upp.keys import require_key
from perdure.upp.provider import LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._http import VendorRequest, endpoint, error_in_stream, post_json
from perdure.upp.providers.anthropic.json_answer import JSONAnswer, check_structure, read_json_answer
from perdure.upp.providers.anthropic.request import build_body
from perdure.upp.providers.anthropic.response import read_response
from perdure.upp.providers.anthropic.schema import PROVIDER, check_tools
from perdure.upp.providers.anthropic.stream import read_stream
from perdure.upp.stream import StreamEvent
from perdure.upp.tools import Tool

_ADDRESS = "https://api.anthropic.com"
_API_VERSION = "2023-06-01"
_KEY_VARIABLES = ("ANTHROPIC_API_KEY",)


def anthropic(
    model_id: str, *, config: ProviderConfig | None = None, betas: Sequence[str] = (), short: bool = False
) -> ModelReference:
    """Returns a Claude model by its id, such as "claude-sonnet-4-5".

    A structured answer is asked for by the vendor's `output_config.format`, which enforces the schema. For a schema
    that it does not take (open objects, recursion, bounds, `oneOf`, ...) and for models older than it, a tool
    `json_response` stands for the answer: its input becomes the message's text and the response's data, and it is
    never among the message's calls. With tools of its own a request then has the choice "any" (of them and
    `json_response`), so that the answer comes when the model needs no more calls. While thinking is on nothing can
    be forced, and the model may write the JSON as text.

    Args:
        model_id: the vendor's name of the model.
        config: how the vendor is reached; the key is by default ANTHROPIC_API_KEY. Of the API's versions the default
            is 2023-06-01: the next one, 2026-10-21, refuses `temperature`, `top_p` and `top_k`.
        betas: names for the header `anthropic-beta`; such a header in the configuration takes their place.
        short: it answers within a second; see ModelReference.
    """
    return ModelReference(model_id, AnthropicProvider(), {"betas": tuple(betas)}, config, short)


class AnthropicProvider:
    """The Claude models."""

    name = PROVIDER
    version = "1"

    def bind(self, model_id: str, options: Mapping[str, object]) -> AnthropicModel:
        """Returns the model.

        Raises:
            UPPError: INVALID_REQUEST if the id is empty or the options are other than `betas`, a list of names.
        """
        unknown = sorted(options.keys() - {"betas"})
        if unknown:
            raise refuse(f"unknown options {', '.join(unknown)}; there is only betas", PROVIDER)
        betas = options.get("betas", ())
        names = list(cast("Sequence[object]", betas)) if isinstance(betas, list | tuple) else [None]
        if not model_id or not all(isinstance(name, str) and name for name in names):
            raise refuse("a model needs an id, and betas must be a list of names", PROVIDER)
        return AnthropicModel(model_id, [str(name) for name in names])


class AnthropicModel:
    """A Claude model that can be called; see `anthropic`."""

    provider = PROVIDER
    capabilities = LLMCapabilities(image_input=True, document_input=True)

    def __init__(self, model_id: str, betas: Sequence[str]) -> None:
        self.model_id = model_id
        self._betas = list(betas)

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None:
        """Looks at tools and structure; see `schema`. Raises UPPError INVALID_REQUEST."""
        check_tools(tools)
        if structure is not None:
            check_structure(self.model_id, structure, tools)

    async def complete(self, request: LLMRequest) -> LLMResponse:
        """Returns the answer. Raises UPPError."""
        answer = read_json_answer(self.model_id, request)
        vendor = await self._vendor_request(request, answer, stream=False)
        body = await post_json(vendor)
        if body.get("type") == "error":  # gateways say 200 and send the vendor's error
            raise error_in_stream(vendor, body)
        return read_response(request, body, by_tool=_by_tool(answer))

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """Returns the answer as it comes. Raises UPPError while it is read."""
        return LLMStreamResult(self._stream(request))

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        answer = read_json_answer(self.model_id, request)
        vendor = await self._vendor_request(request, answer, stream=True)
        async with aclosing(read_stream(vendor, request, by_tool=_by_tool(answer))) as parts:
            async for part in parts:
                yield part

    async def _vendor_request(self, request: LLMRequest, answer: JSONAnswer | None, *, stream: bool) -> VendorRequest:
        body = build_body(self.model_id, request, answer, stream=stream)
        config = request.config or ProviderConfig()
        key = await require_key(config.api_key, _KEY_VARIABLES, PROVIDER)
        headers = {"x-api-key": key, "anthropic-version": config.api_version or _API_VERSION}
        if self._betas:
            headers["anthropic-beta"] = ",".join(self._betas)
        return VendorRequest(PROVIDER, _url(config.base_url), body, config, headers, [key])


def _by_tool(answer: JSONAnswer | None) -> bool:
    return answer is not None and answer.by_tool


def _url(base_url: str | None) -> str:
    versioned = base_url is not None and base_url.rstrip("/").endswith("/v1")
    return endpoint(base_url, _ADDRESS, "/messages" if versioned else "/v1/messages")
