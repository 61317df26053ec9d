"""Messages that a strategy needs and the conversation does not: its prompts, and answers to them.

They stay in the state of their run, so that it can be restored exactly, and are no part of turns and threads.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from perdure.upp.content import AssistantContent
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, UserMessage

NAMESPACE = "uap"
PROMPT = "prompt"
REASON = "reason"
PLAN = "plan"


def scaffold_of(message: Message) -> str:
    """What a message is to its strategy: "prompt", "reason" or "plan"; empty if it is part of the conversation."""
    return str(message.metadata.get(NAMESPACE, {}).get("scaffold", "")) if message.metadata else ""


def prompt_message(prompt: str, *, id: str | None = None, timestamp: datetime | None = None) -> UserMessage:
    """A strategy's prompt."""
    return UserMessage(prompt, id=id, timestamp=timestamp, metadata={NAMESPACE: {"scaffold": PROMPT}})


def as_scaffold(answer: AssistantMessage, kind: str) -> AssistantMessage:
    """An answer that is the strategy's own. Calls in it are dropped: nobody would carry them out."""
    metadata: dict[str, JSONObject] = dict(answer.metadata or {})
    metadata[NAMESPACE] = {**metadata.get(NAMESPACE, {}), "scaffold": kind}
    content = cast("list[AssistantContent]", answer.content)
    return AssistantMessage(content, id=answer.id, timestamp=answer.timestamp, metadata=metadata)
