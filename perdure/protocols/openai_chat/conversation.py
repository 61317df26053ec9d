"""The messages of a request as an agent's conversation, and its settings as a run's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.openai_chat.model_params import ModelKind, model_params
from perdure.protocols.openai_chat.request import (
    AudioPart,
    ChatMessage,
    ChatRequest,
    FilePart,
    ImagePart,
    NamedTool,
    Part,
    RefusalPart,
    TextPart,
)
from perdure.protocols.uamp_events.content_ids import identified, media_of
from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    FileItem,
    ImageItem,
    TextItem,
    ToolCallItem,
    ToolResultItem,
    WireMessage,
)
from perdure.protocols.uamp_events.conversation import Clock, UPPMessage, read_conversation
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.media import MediaUrl, data_uri, wire_media
from perdure.protocols.uamp_events.run_options import format_option
from perdure.protocols.uamp_events.upp_blocks import Fetched
from perdure.uap.options import RunOptions
from perdure.upp.json_value import encode_base64
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A request as a run takes it.

    Attributes:
        history: what stands before the turn, oldest first.
        user: what the user says; None if the request goes on after results or an answer.
        results: what the tools returned that the client ran for the last answer; it goes to the run that waits for
            them, or ends the history of a new one.
        instructions: what the system's and the developer's messages say.
    """

    history: list[UPPMessage] = field(default_factory=list[UPPMessage])
    user: UserMessage | None = None
    results: ToolResultMessage | None = None
    instructions: str | None = None


def wire_messages(request: ChatRequest, content_id: Callable[[str], str]) -> list[WireMessage]:
    """The request's messages with content items; media has content ids.

    Args:
        request: the request.
        content_id: a UUID for media that has none, by its base64 or URL: clients send the whole conversation each time,
            and the same media is to have the same id.

    Raises:
        ChatFault: 400, a part that cannot be used.
    """
    return [_message(message, place, content_id) for place, message in enumerate(request.messages)]


def chat_turn(messages: list[WireMessage], clock: Clock, fetched: Mapping[str, Fetched] | None = None) -> ChatTurn:
    """The turn of a request's messages.

    Args:
        messages: as `wire_messages` gives them.
        clock: ids and times of the messages.
        fetched: the media that `upp_blocks.urls_to_fetch` names.

    Raises:
        ChatFault: 400, content that cannot be used, a result of no call, or a call whose result is missing at the end.
    """
    try:
        read, system = read_conversation(messages, clock, fetched)
    except EventRefused as refused:
        of_call = refused.code == Code.UNKNOWN_CALL_ID
        code = "invalid_tool_call_id" if of_call else "invalid_value"
        raise ChatFault(str(refused), code=code, param="messages") from refused
    instructions = "\n\n".join(text for text in system if text) or None
    last = read[-1] if read else None
    if isinstance(last, UserMessage):
        return ChatTurn(read[:-1], user=last, instructions=instructions)
    if isinstance(last, ToolResultMessage):
        _check_complete(read[-2] if len(read) > 1 else None, last)
        return ChatTurn(read[:-1], results=last, instructions=instructions)
    return ChatTurn(read, instructions=instructions)


def chat_options(request: ChatRequest, turn: ChatTurn, kind: ModelKind) -> RunOptions:
    """The options of a request's run, without its history.

    Raises:
        ChatFault: 400, a tool is to be called that is not there, or a setting that the agent's model does not have.
    """
    wanted = request.response_format
    return RunOptions(
        instructions=turn.instructions,
        params=model_params(request, kind),
        tool_choice=_tool_choice(request),
        response_format=None if wanted is None else format_option(wanted),
        client_tools=[_declared(tool.function.model_dump(exclude_none=True)) for tool in request.tools or ()],
    )


def _check_complete(answer: UPPMessage | None, results: ToolResultMessage) -> None:
    """At the end every call needs its result: what stands there is waited for, or goes to the model as it is."""
    calls = answer.tool_calls or () if isinstance(answer, AssistantMessage) else ()
    given = {result.tool_call_id for result in results.results}
    missing = [call.tool_call_id for call in calls if call.tool_call_id not in given]
    if missing:
        raise ChatFault(
            f"the calls {', '.join(repr(ident[:80]) for ident in missing[:5])} have no result; send a message of role "
            "'tool' for each call of the assistant's message",
            code="invalid_tool_call_id",
            param="messages",
        )


def _tool_choice(request: ChatRequest) -> str | dict[str, Any] | None:
    choice, names = request.tool_choice, [tool.function.name for tool in request.tools or ()]
    if isinstance(choice, NamedTool):
        if choice.function.name not in names:
            raise ChatFault(f"tool {choice.function.name!r} is not among 'tools'", param="tool_choice")
        return {"name": choice.function.name}
    if choice == "required" and not names:
        raise ChatFault("tool_choice 'required' needs 'tools'", param="tool_choice")
    return choice


def _declared(function: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], "description": function.get("description") or "", "parameters": parameters}


def _message(message: ChatMessage, place: int, content_id: Callable[[str], str]) -> WireMessage:
    role = "system" if message.role == "developer" else message.role
    param = f"messages.{place}"
    if role == "tool" and not message.tool_call_id:
        raise ChatFault("a message of role 'tool' needs 'tool_call_id'", param=f"{param}.tool_call_id")
    parts = _parts(message)
    items = [_identified(_item(part, f"{param}.content"), content_id) for part in parts]
    text = "\n\n".join(item.text for item in items if isinstance(item, TextItem))
    return WireMessage(
        role=role,
        content=text,
        content_items=items if role in ("user", "assistant") else None,
        name=message.name,
        tool_call_id=message.tool_call_id,
        tool_calls=message.tool_calls,
    )


def _identified(item: ContentItem, content_id: Callable[[str], str]) -> ContentItem:
    if isinstance(item, TextItem | ToolCallItem | ToolResultItem):
        return item
    media = media_of(item)
    return identified(item, lambda: content_id(media if isinstance(media, str) else media.url))


def _parts(message: ChatMessage) -> Iterable[Part]:
    if isinstance(message.content, str):
        # An empty user message is one all the same; an assistant's with tool calls has none.
        return [TextPart(type="text", text=message.content)] if message.content or message.role == "user" else []
    parts = list(message.content or ())
    return [*parts, RefusalPart(type="refusal", refusal=message.refusal)] if message.refusal else parts


def _item(part: Part, param: str) -> ContentItem:
    match part:
        case TextPart():
            return TextItem(text=part.text)
        case RefusalPart():
            return TextItem(text=part.refusal)
        case ImagePart():
            return ImageItem(image=MediaUrl(url=part.image_url.url), detail=part.image_url.detail)
        case AudioPart():
            return AudioItem(audio=part.input_audio.data, format=part.input_audio.format)
        case FilePart():
            return _file(part, param)


def _file(part: FilePart, param: str) -> FileItem:
    name = part.file.filename or "document"
    if part.file.file_id is not None:
        url = MediaUrl(url=f"/api/content/{part.file.file_id}")
        return FileItem(file=url, filename=name, mime_type=_mime_of(name), content_id=part.file.file_id)
    if part.file.file_data is None:
        raise ChatFault("a file needs 'file_data' or 'file_id'", param=param)
    try:
        inline = data_uri(part.file.file_data)
    except EventRefused as refused:
        raise ChatFault(str(refused), param=param) from refused
    if inline is None:
        return FileItem(file=wire_media(part.file.file_data), filename=name, mime_type=_mime_of(name))
    return FileItem(file=encode_base64(inline[1]), filename=name, mime_type=inline[0])


def _mime_of(name: str) -> str:
    """OpenAI's files are PDFs where nothing else is said."""
    known = {"txt": "text/plain", "md": "text/plain", "csv": "text/csv", "json": "application/json"}
    return known.get(name.rpartition(".")[2].lower(), "application/pdf")
