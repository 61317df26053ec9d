"""The request of the AI SDK's `useChat`, and what the chat door answers besides streams.

Unlike other bodies, these may have members that nobody here knows: the SDK's and the application's own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from perdure.api.json_types import Name, Object, Objects
from perdure.api.models import Options
from perdure.api.shapes import Shape
from perdure.upp.json_value import JSONObject

_SAID: JSONObject = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Why is the build red?"}]}


class Trigger(StrEnum):
    """What the client asks for."""

    SUBMIT = "submit-message"
    REGENERATE = "regenerate-message"
    RESUME = "resume-stream"


class ChatPolicy(StrEnum):
    """What becomes of a message that comes while the chat's run is active."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"


ChatId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ChatRequest(BaseModel):
    """A message, answers to tool calls, or a message that is to be answered once more."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        json_schema_extra={
            "examples": [
                {"id": "chat-1", "trigger": "submit-message", "messages": [_SAID]},
                {"id": "chat-1", "agent": "coder", "message": _SAID, "policy": "interrupt"},
            ]
        },
    )

    id: ChatId = Field(description="the chat's; a session's id, or any text that names one")
    messages: Objects = Field(default=[], description="the chat's UI messages, oldest first; the last ones are enough")
    message: Object | None = Field(default=None, description="the last UI message, in place of `messages`")
    trigger: Trigger = Field(default=Trigger.SUBMIT, description="as the SDK sets it")
    message_id: str | None = Field(default=None, alias="messageId", description="as the SDK sets it")
    agent: Name | None = Field(default=None, description="who answers; by default the chat's, else the first by name")
    policy: ChatPolicy | None = Field(
        default=None,
        description="while a run is active; by default its turn comes, but what waits for the client is cancelled",
    )
    title: str | None = Field(default=None, description="of a session that this opens")
    options: Options = Field(default=Options(), description="what this run does otherwise than its agent says")


class ChatMessages(Shape):
    """A chat as the SDK's UI messages."""

    id: str
    session: str
    agent: str
    messages: list[JSONObject]
