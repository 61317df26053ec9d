"""`memory`: what of a long conversation the model sees. Source: UAP-1.0 section 10.4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from perdure.errors import InvalidInput
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.middlewares.retriever import Retriever
from perdure.uap.middlewares.summary import Summarize, Summarizer, Used, note, transcript
from perdure.uap.middlewares.window import estimate_tokens, window_start
from perdure.uap.user_call import call_user
from perdure.upp.messages import Message, UserMessage
from perdure.upp.provider import ModelReference

SUMMARY = "Summary of the conversation so far:\n\n"
LEFT_OUT = "(Earlier messages are left out.)"
FOUND = "From memory, perhaps of use for what comes next:\n\n"


class Memory(Middleware):
    """Puts a window in place of the history. Made by `memory(...)`."""

    name = "memory"
    listens = frozenset()

    def __init__(
        self,
        start: Callable[[Sequence[Message]], int],
        summarizer: Summarizer | None,
        retriever: Retriever | None,
        top_k: int,
    ) -> None:
        """Takes what says where the window begins, and the options of `memory`."""
        self._start = start
        self._summarizer = summarizer
        self._retriever = retriever
        self._top_k = top_k

    async def before(self, context: MiddlewareContext) -> MiddlewareContext | None:
        start = self._start(context.history)
        older, kept = context.history[:start], context.history[start:]
        front = await self._summary(older, partial(context.count, self.name))
        if older and kept and not front and not isinstance(kept[0], UserMessage):
            front = [note("left_out", LEFT_OUT)]  # vendors want a conversation to begin with the user
        found = await self._found(context.input, kept)
        if not older and not found:
            return None
        return replace(context, history=[*front, *kept, *found])

    async def _summary(self, older: Sequence[Message], used: Used) -> list[Message]:
        if self._summarizer is None or not older:
            return []
        text = await self._summarizer.summary(older, used)
        return [note("summary", SUMMARY + text)] if text.strip() else []

    async def _found(self, query: Message, kept: Sequence[Message]) -> list[Message]:
        """One message with all that was found: found messages may be halves of pairs, so they are told as text."""
        if self._retriever is None or not query.text.strip():
            return []
        finds = await call_user(self._retriever.retrieve, query.text, self._top_k)
        seen = {message.id for message in kept}
        texts = [
            item if isinstance(item, str) else transcript([item])
            for item in list(cast("Sequence[str | Message]", finds))[: self._top_k]
            if isinstance(item, str) or item.id not in seen
        ]
        return [note("retrieved", FOUND + "\n\n".join(texts))] if texts else []


def memory(
    *,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    summarize: Summarize | ModelReference | None = None,
    retriever: Retriever | None = None,
    top_k: int = 4,
    count_tokens: Callable[[Message], int] = estimate_tokens,
) -> Middleware:
    """Middleware that shows the model the end of a long history, and the rest in short.

    Only what the model sees changes: threads and sessions keep every message. What a model that summarizes uses is the
    run's, in usage by agent under `<agent path>#memory`. Calls of tools and their results stay
    together, and the window begins with what the user said. The limits hold for the messages of the history itself;
    the input, a summary and what a retriever found come on top.

    Args:
        max_messages: how many messages of the history are seen; at least 1.
        max_tokens: how many tokens of it are seen; at least 1.
        summarize: what stands for the messages before the window: a function, sync or async, of messages to text, or a
            model. Without it they are left out.
        retriever: asked with the input's text; what it finds comes right before the input.
        top_k: how many finds at most.
        count_tokens: a message's tokens; by default an estimate, 4 characters a token.

    Raises:
        InvalidInput: nothing to do at all, a summary without a limit, or a number that is not whole and at least 1.
        UPPError: INVALID_REQUEST if the model cannot be used.
    """
    for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens), ("top_k", top_k)):
        _check_whole(name, value)
    limited = max_messages is not None or max_tokens is not None
    if not limited and retriever is None:
        raise InvalidInput("memory() has nothing to do: give max_messages, max_tokens or retriever")
    if not limited and summarize is not None:
        raise InvalidInput("summarize needs max_messages or max_tokens: they say what is to be summarized")

    def start(messages: Sequence[Message]) -> int:
        return window_start(messages, max_messages=max_messages, max_tokens=max_tokens, count=count_tokens)

    return Memory(start, None if summarize is None else Summarizer(summarize), retriever, top_k)


def _check_whole(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InvalidInput(f"{name} is {value!r:.80}; it must be a whole number of at least 1, or left out")
