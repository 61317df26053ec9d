"""What a client posts to /v1/chat/completions. Members that nobody here knows are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, cast

import rfc8785
from pydantic import Field, ValidationError

from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.uamp_events.content_items import MessageToolCall
from perdure.protocols.uamp_events.session_config import ResponseFormat, ToolFunction
from perdure.protocols.uamp_events.wire import WireModel
from perdure.upp.json_value import JSONObject, loads, sha256_hex, well_formed


class TextPart(WireModel):
    """Text."""

    type: Literal["text"]
    text: str


class RefusalPart(WireModel):
    """A model's refusal, in an assistant message."""

    type: Literal["refusal"]
    refusal: str


class ImageUrl(WireModel):
    """A URL, or a data URI."""

    url: str
    detail: str | None = None


class ImagePart(WireModel):
    """An image."""

    type: Literal["image_url"]
    image_url: ImageUrl


class AudioData(WireModel):
    """Base64."""

    data: str
    format: str


class AudioPart(WireModel):
    """Sound."""

    type: Literal["input_audio"]
    input_audio: AudioData


class FileData(WireModel):
    """A data URI, or the id of content that was uploaded."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(WireModel):
    """A file."""

    type: Literal["file"]
    file: FileData


Part: TypeAlias = Annotated[TextPart | RefusalPart | ImagePart | AudioPart | FilePart, Field(discriminator="type")]


class ChatMessage(WireModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    refusal: str | None = None


class ChatTool(WireModel):
    """A function that the client runs."""

    type: Literal["function"]
    function: ToolFunction


class NamedFunction(WireModel):
    """The name of a function."""

    name: str


class NamedTool(WireModel):
    """The function that must be called."""

    type: Literal["function"]
    function: NamedFunction


class StreamOptions(WireModel):
    """What a stream has besides."""

    include_usage: bool | None = None


class ChatRequest(WireModel):
    """A request. `model` names the agent."""

    model: str = Field(min_length=1)
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ChatTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    n: int | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    functions: list[JSONObject] | None = None
    user: str | None = None
    metadata: JSONObject | None = None

    @property
    def streams(self) -> bool:
        """Whether the reply is a stream; by default it is not."""
        return bool(self.stream)

    @property
    def session(self) -> str | None:
        """The session to go on in, for clients that cannot send its header; an addition."""
        named = (self.metadata or {}).get("session_id")
        return named if isinstance(named, str) else None

    @property
    def wants_usage(self) -> bool:
        """Whether the stream's last chunk tells the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


def read_chat_request(body: bytes) -> ChatRequest:
    """The request of a body.

    Raises:
        ChatFault: 400; it names the first part that cannot be used, or that is not served here.
    """
    try:
        request = ChatRequest.model_validate(_object(body))
    except ValidationError as error:
        raise _fault(error) from error
    _check_served(request)
    return request


def messages_sha256(body: bytes) -> str:
    """SHA-256 of the RFC 8785 canonical JSON of a body's `messages`: what anybody can compute who sent them.

    Raises:
        ChatFault: 400, they have no such form.
    """
    try:
        return sha256_hex(rfc8785.dumps(cast(Any, _object(body)["messages"])))
    except rfc8785.CanonicalizationError as error:
        raise ChatFault(f"'messages' have no canonical JSON (RFC 8785): {error}", param="messages") from error


def _object(body: bytes) -> JSONObject:
    try:
        value = well_formed(loads(body))
    except ValueError as error:
        raise ChatFault(f"the body is no JSON: {error}", code="invalid_json") from error
    if not isinstance(value, dict):
        raise ChatFault("the body must be a JSON object", code="invalid_json")
    return value


def _fault(error: ValidationError) -> ChatFault:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ".".join(str(step) for step in first["loc"])
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return ChatFault(f"'{param}': {first['msg']}", code=code, param=param)


def _check_served(request: ChatRequest) -> None:
    unserved = {
        "n": request.n is not None and request.n != 1,
        "logprobs": bool(request.logprobs),
        "modalities": any(name != "text" for name in request.modalities or ()),
        "functions": request.functions is not None,
    }
    for name, asked in unserved.items():
        if asked:
            remedy = "use 'tools'" if name == "functions" else "leave it out"
            raise ChatFault(f"'{name}' as given is not served; {remedy}", code="unsupported_parameter", param=name)
