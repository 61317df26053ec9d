"""`llm()`: a model with its system prompt, tools and settings, ready for inference. Source: UPP-1.2, llm()."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast, overload

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import EventFlow
from perdure.upp.exchange import StreamedAnswers, WholeAnswers
from perdure.upp.generation import Generation
from perdure.upp.inference import Conversation, History, InferenceInput, check_media, read_inputs
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.llm_middleware import LLMMiddleware, LLMMiddlewareContext, MiddlewareChain
from perdure.upp.prices import PriceTable
from perdure.upp.provider import BoundLLMModel, LLMCapabilities, LLMRequest, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.response_format import read_response_format
from perdure.upp.stream_result import StreamResult
from perdure.upp.tool_choice import ToolChoice, read_tool_choice
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn


class LLMInstance:
    """A model in use; made by `llm(...)`. It keeps no conversation, and serves any number of inferences at once."""

    def __init__(
        self,
        model: BoundLLMModel,
        request: LLMRequest,
        strategy: ToolUseStrategy,
        middleware: Sequence[LLMMiddleware],
        prices: PriceTable,
    ) -> None:
        """Takes the model and what is asked of it each time, all but the messages."""
        self._model = model
        self._request = request
        self._strategy = strategy
        self._middleware = tuple(middleware)
        self._prices = prices

    @property
    def model(self) -> BoundLLMModel:
        """The bound model."""
        return self._model

    @property
    def system(self) -> str | list[JSONValue] | None:
        """The system prompt."""
        return self._request.system

    @property
    def params(self) -> JSONObject | None:
        """The vendor's own parameters."""
        return self._request.params

    @property
    def capabilities(self) -> LLMCapabilities:
        """What the provider's models can do."""
        return self._model.capabilities

    @overload
    async def generate(self, input: InferenceInput, /, *more: InferenceInput) -> Turn: ...
    @overload
    async def generate(self, history: History, /, *inputs: InferenceInput) -> Turn: ...
    async def generate(self, first: History | InferenceInput, /, *rest: InferenceInput) -> Turn:
        """Returns what the model makes of the inputs, after all tool calls; a history is not changed.

        Args:
            first: an input, or the history: a Thread or a list of messages.
            rest: more inputs; each becomes a message of its own. A history that is not empty needs none.

        Raises:
            UPPError: INVALID_REQUEST if an argument cannot be sent, or at the limit of tool rounds; else what the
                provider raised.
            Exception: what an approval handler or a hook raised.
        """
        conversation = self._read(first, rest)
        chain = self._chain(conversation, streaming=False)
        return await self._generation(conversation, chain).run(WholeAnswers(self._model))

    @overload
    def stream(self, input: InferenceInput, /, *more: InferenceInput) -> StreamResult: ...
    @overload
    def stream(self, history: History, /, *inputs: InferenceInput) -> StreamResult: ...
    def stream(self, first: History | InferenceInput, /, *rest: InferenceInput) -> StreamResult:
        """Returns the same as it comes; nothing is sent before it is read. The arguments are those of `generate`.

        Raises:
            UPPError: INVALID_REQUEST if the provider cannot stream or an argument cannot be sent. The rest is raised
                while it is read.
        """
        if not self.capabilities.streaming:
            raise _refused(self._model, "cannot stream; use generate()")
        conversation = self._read(first, rest)

        async def work(flow: EventFlow) -> Turn:
            chain = self._chain(conversation, streaming=True)
            return await self._generation(conversation, chain).run(StreamedAnswers(self._model, flow, chain))

        return StreamResult(work, self._model.provider)

    def _read(self, first: object, rest: Sequence[object]) -> Conversation:
        conversation = read_inputs(first, rest)
        check_media([*conversation.history, *conversation.inputs], self.capabilities, self._model.provider)
        return conversation

    def _chain(self, conversation: Conversation, *, streaming: bool) -> MiddlewareChain:
        messages = [*conversation.history, *conversation.inputs]
        context = LLMMiddlewareContext(
            model_id=self._model.model_id,
            provider=self._model.provider,
            streaming=streaming,
            request=replace(self._request, messages=messages),
            start_time=time.time_ns() // 1_000_000,
        )
        return MiddlewareChain(self._middleware, context)

    def _generation(self, conversation: Conversation, chain: MiddlewareChain) -> Generation:
        return Generation(self._model, self._strategy, chain, conversation.inputs, self._prices)


def llm(
    *,
    model: ModelReference,
    config: ProviderConfig | None = None,
    params: JSONObject | None = None,
    system: str | list[JSONValue] | None = None,
    tools: Sequence[Tool] = (),
    tool_strategy: ToolUseStrategy | None = None,
    structure: JSONObject | None = None,
    tool_choice: ToolChoice | None = None,
    response_format: JSONObject | None = None,
    modalities: Sequence[str] | None = None,
    middleware: Sequence[LLMMiddleware] = (),
    prices: PriceTable | None = None,
) -> LLMInstance:
    """Returns a model ready for inference; nothing is sent.

    Args:
        model: from a provider, as `anthropic("claude-...")`.
        config: how the provider is reached, over what the model's own reference says.
        params: the vendor's own parameters, passed on as they are.
        system: the system prompt, or the vendor's own text blocks.
        tools: what the model may call; calls are carried out here.
        tool_strategy: limit and hooks of tool use; by default ten rounds.
        structure: a JSON Schema that the answer must fit; the turn then has `data`.
        tool_choice: "auto", "none", "required", or `{"name": "<tool>"}`.
        response_format: the form of the answer's text, read by `read_response_format`.
        modalities: what the answer may hold, as ["text", "audio"]; None leaves it to the vendor.
        middleware: outermost first.
        prices: gives the turn's usage its cost.

    Raises:
        UPPError: INVALID_REQUEST if the provider cannot do what is asked, would refuse a tool or the structure, or an
            option cannot be used.

    Source: UPP-1.2, LLMOptions; tool_choice, response_format, modalities and prices are Perdure's, middleware is
    UPP-1.3's.
    """
    if not isinstance(cast(object, model), ModelReference):
        raise _invalid(f"model is a {type(model).__name__}; it must come from a provider, as scripted([...]) does")
    bound = model.bind()
    _check_tools(bound, tools)
    if structure is not None and not bound.capabilities.structured_output:
        raise _refused(bound, "has no structured output; leave structure out, or use another provider")
    read_tool_choice(tool_choice, tools, ())
    read_response_format(response_format, structure)
    bound.check(tools, structure)
    request = LLMRequest(
        messages=(),
        system=system,
        params=params,
        tools=tuple(tools),
        structure=structure,
        tool_choice=tool_choice,
        response_format=response_format,
        modalities=modalities,
        config=model.config if config is None else config.over(model.config),
    )
    return LLMInstance(bound, request, tool_strategy or ToolUseStrategy(), middleware, prices or {})


def _check_tools(model: BoundLLMModel, tools: Sequence[Tool]) -> None:
    names: set[str] = set()
    for item in tools:
        if not isinstance(cast(object, item), Tool):
            raise _invalid(f"{item!r} is not a tool; make one from a typed function with @tool")
        if item.name in names:
            raise _invalid(f"two tools are named {item.name!r}; give one another name")
        names.add(item.name)
    if tools and not model.capabilities.tools:
        raise _refused(model, "cannot call tools; leave tools out, or use another provider")


def _invalid(problem: str) -> UPPError:
    return UPPError(problem, ErrorCode.INVALID_REQUEST)


def _refused(model: BoundLLMModel, problem: str) -> UPPError:
    return UPPError(f"provider '{model.provider}' {problem}", ErrorCode.INVALID_REQUEST, model.provider)
