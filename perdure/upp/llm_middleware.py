"""Middleware of `llm()`: what looks at, and may change, the requests, answers and events of an inference.

Source: UPP-1.3, middleware. Its built-in middleware (parsing, publishing, storing) is not part of this.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from perdure.upp.errors import Modality
from perdure.upp.json_value import JSONValue
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_use import settle
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LLMMiddlewareContext:
    """What all hooks of one inference see; each inference has its own.

    Attributes:
        request: what the model is asked first; `on_request` may put another in its place, which then holds for every
            model call of the inference.
        response: the last answer with the whole usage; `on_response` may put another in its place.
        state: for middleware to keep things in; keys begin with the middleware's name.
        start_time: milliseconds since the epoch.
        end_time: milliseconds since the epoch; None until the model's part is over.
    """

    modality: ClassVar[Modality] = Modality.LLM
    model_id: str
    provider: str
    streaming: bool
    request: LLMRequest
    start_time: int
    response: LLMResponse | None = None
    end_time: int | None = None
    state: dict[str, Any] = field(default_factory=dict[str, Any])


class LLMMiddleware:
    """Hooks around an inference; override those that are wanted, as sync or async methods.

    One inference is one call of `generate` or `stream`, with all its model calls and tools. What a hook raises makes
    the inference fail, but for `on_error` and `on_abort`: it is logged there.
    """

    name: str = "middleware"

    def on_start(self, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """The inference starts; in order."""

    def on_request(self, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """Nothing was sent yet, `context.request` may be replaced; in order."""

    def on_response(self, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """The last answer is there, `context.response` may be replaced; in reverse order."""

    def on_turn(self, turn: Turn, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """The turn is made; in reverse order."""

    def on_end(self, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """The inference succeeded; in reverse order."""

    def on_error(self, error: Exception, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """The inference failed; every middleware is told, in order."""

    def on_abort(self, error: Exception, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """The inference was cancelled; every middleware is told, in order."""

    def on_stream_event(
        self, event: StreamEvent, context: LLMMiddlewareContext
    ) -> StreamEvent | Sequence[StreamEvent] | None:
        """Returns the event to pass on, several in its place, or None for none; in order, never async."""
        return event

    def on_stream_end(self, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """All events went through; in order."""

    def on_tool_call(self, tool: Tool, params: JSONValue, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """A known tool is about to be called, with params as the model wrote them; in order."""

    def on_tool_result(self, tool: Tool, result: JSONValue, context: LLMMiddlewareContext) -> Awaitable[None] | None:
        """A tool call has ended; the result is what the model is told; in order."""


class MiddlewareChain:
    """The middleware of one inference, with its context."""

    def __init__(self, middleware: Sequence[LLMMiddleware], context: LLMMiddlewareContext) -> None:
        self._middleware = middleware
        self.context = context

    async def before(self) -> None:
        """Runs what comes before the first model call. Raises what a hook raised."""
        for item in self._middleware:
            await settle(item.on_start(self.context))
        for item in self._middleware:
            await settle(item.on_request(self.context))

    async def stream_end(self) -> None:
        """Says that all events went through. Raises what a hook raised."""
        for item in self._middleware:
            await settle(item.on_stream_end(self.context))

    async def response(self) -> None:
        """Shows the last answer. Raises what a hook raised."""
        for item in reversed(self._middleware):
            await settle(item.on_response(self.context))

    async def after(self, turn: Turn) -> None:
        """Shows the turn and says that all went well. Raises what a hook raised."""
        for item in reversed(self._middleware):
            await settle(item.on_turn(turn, self.context))
        for item in reversed(self._middleware):
            await settle(item.on_end(self.context))

    async def failed(self, error: Exception, *, aborted: bool) -> None:
        """Tells every middleware of the end; what their hooks raise is logged."""
        for item in self._middleware:
            hook = item.on_abort if aborted else item.on_error
            try:
                await settle(hook(error, self.context))
            except Exception:
                name = "on_abort" if aborted else "on_error"
                _logger.exception("llm.middleware_hook_failed middleware=%s hook=%s", item.name, name)

    def events(self, event: StreamEvent) -> list[StreamEvent]:
        """Returns what the reader gets for an event. Raises what a hook raised."""
        events = [event]
        for item in self._middleware:
            events = [made for event in events for made in _several(item.on_stream_event(event, self.context))]
        return events

    async def tool_call(self, tool: Tool, params: JSONValue) -> None:
        """Shows a tool call that is about to be made. Raises what a hook raised."""
        for item in self._middleware:
            await settle(item.on_tool_call(tool, params, self.context))

    async def tool_result(self, tool: Tool, result: JSONValue) -> None:
        """Shows a tool's result. Raises what a hook raised."""
        for item in self._middleware:
            await settle(item.on_tool_result(tool, result, self.context))


def _several(given: StreamEvent | Sequence[StreamEvent] | None) -> Sequence[StreamEvent]:
    if given is None:
        return ()
    return (given,) if isinstance(given, StreamEvent) else given
