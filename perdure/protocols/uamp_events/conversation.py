"""Messages of the wire as UPP's messages, and back.

What UPP has no place for (content ids, detail, context, names) is kept in the message's metadata. Source: UAMP 1.0,
section 8.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, cast

from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    FileItem,
    FunctionCall,
    ImageItem,
    MessageToolCall,
    TextItem,
    ToolAnswer,
    ToolCallItem,
    ToolResultItem,
    VideoItem,
    WireMessage,
)
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.input_buffer import TurnInput
from perdure.protocols.uamp_events.upp_blocks import Fetched, content_item, stored_facts, stored_item, user_blocks
from perdure.uap.content_refs import returned_media
from perdure.upp.content import AssistantContent
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tool_media import ToolContent

NAMESPACE = "uamp"
"""Of what these messages have in their metadata."""

UPPMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


@dataclass(frozen=True, slots=True)
class Clock:
    """Where ids and times of messages come from.

    Attributes:
        draw_id: gives a new UUID.
        now: of all messages.
    """

    draw_id: Callable[[], str]
    now: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as a run takes it.

    Attributes:
        user: the one message that the run answers; None if nobody said anything (the agent may greet).
        before: messages of this turn that stand before it, oldest first.
        history: what the run sees in place of the session's thread; None if the thread goes on.
        instructions: texts that extend the instructions, in order.
    """

    user: UserMessage | None
    before: list[UPPMessage] = field(default_factory=list[UPPMessage])
    history: list[UPPMessage] | None = None
    instructions: list[str] = field(default_factory=list[str])


def turn_of(given: TurnInput, clock: Clock, fetched: Mapping[str, Fetched] | None = None) -> Turn:
    """What a run takes of all that was sent of a turn.

    Raises:
        EventRefused: content that cannot be used.
    """
    told = [to_upp(message, clock, fetched, context=given.context) for message in given.messages]
    system: list[str] = []
    history = None
    if given.history is not None:
        history, system = read_conversation(given.history, clock, fetched)
    last = told[-1] if told else None
    user = last if isinstance(last, UserMessage) else None
    return Turn(user, told[:-1] if user is not None else told, history, [*system, *given.system])


def read_conversation(
    messages: Sequence[WireMessage], clock: Clock, fetched: Mapping[str, Fetched] | None = None
) -> tuple[list[UPPMessage], list[str]]:
    """A conversation's messages, oldest first, and apart from them what its system messages say.

    Results of the calls of one assistant message become one message.

    Raises:
        EventRefused: content that cannot be used, or a result of no call.
    """
    read: list[UPPMessage] = []
    system: list[str] = []
    for message in messages:
        if message.role == "system":
            system.append(message.text())
            continue
        new = to_upp(message, clock, fetched)
        last = read[-1] if read else None
        if isinstance(new, ToolResultMessage) and isinstance(last, ToolResultMessage):
            read[-1] = ToolResultMessage(
                [*last.results, *new.results], id=last.id, timestamp=last.timestamp, metadata=last.metadata
            )
        else:
            read.append(new)
    _check_results(read)
    return read, system


def to_upp(
    message: WireMessage,
    clock: Clock,
    fetched: Mapping[str, Fetched] | None = None,
    *,
    context: JSONObject | None = None,
) -> UPPMessage:
    """The UPP message of one that is no system message.

    Raises:
        EventRefused: content that cannot be used.
    """
    items = message.items()
    metadata = _metadata(message, items, context or {})
    match message.role:
        case "assistant":
            said = [item for item in items if isinstance(item, TextItem | ImageItem | AudioItem | VideoItem)]
            blocks = cast("list[AssistantContent]", user_blocks(said, fetched))
            calls = _calls(message, items)
            return AssistantMessage(blocks, calls or None, id=clock.draw_id(), timestamp=clock.now, metadata=metadata)
        case "tool":
            return ToolResultMessage(_results(message, items), id=clock.draw_id(), timestamp=clock.now)
        case _:
            content = user_blocks(items, fetched)
            return UserMessage(content, id=clock.draw_id(), timestamp=clock.now, metadata=metadata)


def from_upp(message: Message) -> WireMessage:
    """The message as the wire has it, with its content ids."""
    kept = (message.metadata or {}).get(NAMESPACE) or {}
    if isinstance(message, ToolResultMessage):
        items: list[ContentItem] = [_result_item(result) for result in message.results]
        only = message.results[0].tool_call_id if len(message.results) == 1 else None
        return WireMessage(role="tool", content=message.text, content_items=items, tool_call_id=only)
    told = cast("list[JSONObject | None]", kept.get("items") or [])
    items = []
    for place, block in enumerate(message.blocks()):
        item = content_item(block)
        extra = told[place] if place < len(told) else None
        if item is not None:
            known = {name: value for name, value in (extra or {}).items() if name in type(item).model_fields}
            items.append(item.model_copy(update=known))
    name = kept.get("name")
    shown = WireMessage(
        role="user" if isinstance(message, UserMessage) else "assistant",
        content=message.text,
        content_items=items,
        name=name if isinstance(name, str) else None,
    )
    if isinstance(message, AssistantMessage) and message.tool_calls:
        return shown.model_copy(update={"tool_calls": [_wire_call(call) for call in message.tool_calls]})
    return shown


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as JSON text; text that was no JSON stays as it is."""
    return call.arguments if isinstance(call.arguments, str) else dumps(call.arguments).decode("utf-8", "replace")


def read_json(text: str) -> JSONValue:
    """The value of JSON text, or the text itself if it is none."""
    try:
        return loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text


def _wire_call(call: ToolCall) -> MessageToolCall:
    function = FunctionCall(name=call.tool_name, arguments=arguments_text(call))
    return MessageToolCall(id=call.tool_call_id, type="function", function=function)


def _result_item(result: ToolResult) -> ToolResultItem:
    media: list[ContentItem] = [stored_item(media) for media in returned_media(result.result)]
    answer = ToolAnswer(
        call_id=result.tool_call_id, result=result.text, is_error=result.is_error, content_items=media or None
    )
    return ToolResultItem(tool_result=answer)


def _calls(message: WireMessage, items: Iterable[ContentItem]) -> list[ToolCall]:
    told = [call.called() for call in message.tool_calls or ()]
    told = told or [item.tool_call for item in items if isinstance(item, ToolCallItem)]
    return [ToolCall(call.id, call.name, read_json(call.arguments)) for call in told]


def _results(message: WireMessage, items: Iterable[ContentItem]) -> list[ToolResult]:
    told = [item.tool_result for item in items if isinstance(item, ToolResultItem)]
    if told:
        return [ToolResult(one.call_id, _returned(one), one.is_error or False) for one in told]
    if not message.tool_call_id:
        raise EventRefused(Code.INVALID_EVENT, "a message of role 'tool' needs 'tool_call_id'")
    return [ToolResult(message.tool_call_id, message.text())]


def _returned(answer: ToolAnswer) -> JSONValue:
    """What a tool returned, with the ids of the stored media that came with it."""
    value = read_json(answer.result)
    found = [stored_facts(item) for item in answer.content_items or ()]
    media = tuple(item for item in found if item is not None)
    return ToolContent(media).result(value) if media and not returned_media(value) else value


def _check_results(messages: Sequence[UPPMessage]) -> None:
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, AssistantMessage):
            open_calls = {call.tool_call_id for call in message.tool_calls or ()}
        elif isinstance(message, ToolResultMessage):
            for result in message.results:
                if result.tool_call_id not in open_calls:
                    raise EventRefused(
                        Code.UNKNOWN_CALL_ID,
                        f"no call before it has the id {result.tool_call_id[:200]!r}; send the assistant's message too",
                    )


def _metadata(message: WireMessage, items: Sequence[ContentItem], context: JSONObject) -> dict[str, JSONObject] | None:
    kept: JSONObject = {}
    extras: list[JSONValue] = [_extra(item) for item in items]
    if any(extras):
        kept["items"] = extras
    if context:
        kept["context"] = context
    if message.name:
        kept["name"] = message.name
    return {NAMESPACE: kept} if kept else None


def _extra(item: ContentItem) -> JSONObject | None:
    """What a block has no place for."""
    if not isinstance(item, ImageItem | AudioItem | VideoItem | FileItem):
        return None
    names = ("content_id", "detail", "alt_text", "thumbnail", "filename", "mime_type", "format")
    found: JSONObject = {name: getattr(item, name, None) for name in names}
    kept: JSONObject = {name: value for name, value in found.items() if value is not None}
    return kept or None
