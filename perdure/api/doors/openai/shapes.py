"""What this door's routes take and answer, for the OpenAPI document; `perdure.protocols.openai_chat` reads and makes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.api.json_types import Object

_MEANINGS = {
    400: "The request cannot be used; `param` says which part.",
    401: "The caller is not known.",
    402: "The agent is paid for; `context.accepts` says how.",
    403: "The caller lacks the scope, or the page is another server's.",
    404: "There is no such agent, model or session.",
    409: "It conflicts with what is there, or the run was cancelled.",
    410: "The session is being deleted.",
    413: "The body is too large.",
    421: "The server does not answer for this host.",
    429: "Too many requests, or the model's vendor says so.",
    500: "The run or the server failed.",
    503: "A server that is needed does not answer; try again.",
    504: "The run takes longer than is waited for; it goes on.",
}


class OpenAIFault(BaseModel):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """An error in OpenAI's form."""

    error: OpenAIFault


class OpenAIModel(BaseModel):
    """An agent as a model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAIModels(BaseModel):
    """The agents, by name."""

    object: Literal["list"]
    data: list[OpenAIModel]


class OpenAICompletion(BaseModel):
    """A completion; OpenAI's reference has its members in full."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Object]
    usage: Object


class ChatBody(BaseModel):
    """Of a request for a completion. OpenAI's reference has its members in full."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "coder", "messages": [{"role": "user", "content": "Find the bug."}]},
                {"model": "coder", "messages": [{"role": "user", "content": "Go on."}], "stream": True},
            ]
        }
    )

    model: str = Field(description="the agent's name", min_length=1)
    messages: list[Object] = Field(description="the conversation, oldest first", min_length=1)
    stream: bool | None = Field(default=None, description="answer with chunks as they come")
    tools: list[Object] | None = Field(default=None, description="functions that the client runs")
    response_format: Object | None = Field(default=None, description="the form of the answer")


BODIES: tuple[type[BaseModel], ...] = (ChatBody,)
"""Of requests whose routes read them by themselves, to tell what is wrong as OpenAI does."""

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenAIError, "description": meaning} for status, meaning in _MEANINGS.items()
}
"""What any route of this door may answer besides its own."""
