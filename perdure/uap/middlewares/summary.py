"""Summaries of the messages that do not fit into a window, each made once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from perdure.errors import StrategyError
from perdure.uap.user_call import call_user
from perdure.upp.json_value import dumps
from perdure.upp.llm import llm
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.provider import BoundLLMModel, ModelReference
from perdure.upp.usage import TokenUsage

Summarize: TypeAlias = Callable[[Sequence[Message]], str | Awaitable[str]]
"""Text that stands for messages, oldest first; the first of them may be the note of an earlier summary."""

Used: TypeAlias = Callable[[BoundLLMModel, TokenUsage], None]
"""Is told what a model call used."""

NAMESPACE = "uap"
PART_CHARACTERS = 2000
REMEMBERED = 256
PROMPT = (
    "Summarize the conversation you are given for someone who has to continue it without having read it. Keep names, "
    "numbers, decisions, results of tools and what is still to be done. Write the summary only."
)


class Summarizer:
    """Summaries by a function or model. A conversation that has grown is summarized from its last summary on."""

    def __init__(self, summarize: Summarize | ModelReference) -> None:
        self._summarize = ModelSummary(summarize) if isinstance(summarize, ModelReference) else summarize
        self._known: OrderedDict[str, str] = OrderedDict()

    async def summary(self, messages: Sequence[Message], used: Used | None = None) -> str:
        """What stands for the messages, of which there is at least one.

        Args:
            messages: oldest first.
            used: is told what a model that summarizes used.

        Raises:
            StrategyError: the function returned something else than text.
            Exception: what the function raised, or the model.
        """
        keys = _prefix_keys(messages)
        done = next((count for count in range(len(keys), 0, -1) if keys[count - 1] in self._known), 0)
        earlier = [note("summary", self._known[keys[done - 1]])] if done else []
        if done == len(keys):
            return self._known[keys[-1]]
        told = [*earlier, *messages[done:]]
        if isinstance(self._summarize, ModelSummary):
            made: object = await self._summarize.text(told, used)
        else:
            made = await call_user(self._summarize, told)
        if not isinstance(made, str):
            raise StrategyError(f"summarize returned a {type(made).__name__}; it must return text")
        self._known[keys[-1]] = made
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return made


class ModelSummary:
    """Lets a model summarize."""

    def __init__(self, model: ModelReference) -> None:
        """Ask this model. Raises UPPError if it cannot be used."""
        self._llm = llm(model=model, system=PROMPT)

    async def text(self, messages: Sequence[Message], used: Used | None) -> str:
        """What it makes of the messages. Raises UPPError."""
        turn = await self._llm.generate(transcript(messages))
        if used is not None:
            used(self._llm.model, turn.usage)
        return turn.response.text


def note(kind: str, text: str) -> UserMessage:
    """A message that tells the model what memory has for it; it is marked so, and part of no thread."""
    return UserMessage(text, metadata={NAMESPACE: {"memory": kind}})


def transcript(messages: Sequence[Message]) -> str:
    """Messages as text, one paragraph each; long ones are cut."""
    return "\n\n".join(f"{message.type}: {_cut(_said(message))}" for message in messages)


def _said(message: Message) -> str:
    calls = message.tool_calls or [] if isinstance(message, AssistantMessage) else []
    called = [f"[calls {call.tool_name} with {dumps(call.arguments).decode('utf-8', 'replace')}]" for call in calls]
    media = [f"[{block.type}]" for block in message.blocks() if block.type not in ("text", "reasoning")]
    return " ".join(part for part in [message.text, *media, *called] if part)


def _cut(text: str) -> str:
    return text if len(text) <= PART_CHARACTERS else f"{text[:PART_CHARACTERS]} [...]"


def _prefix_keys(messages: Sequence[Message]) -> list[str]:
    """A hash of each beginning of the conversation, by content: ids alone may be the same in another one."""
    whole, keys = hashlib.sha256(), list[str]()
    for message in messages:
        whole.update(hashlib.sha256(dumps(message.to_json())).digest())
        keys.append(whole.hexdigest())
    return keys
