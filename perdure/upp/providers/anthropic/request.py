"""What a request becomes on the vendor's wire: system, messages, tools, choice and form of the answer."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.content import ContentBlock, DocumentBlock, ImageBlock, TextBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._media import base64_of, decode_document
from perdure.upp.providers.anthropic.content import assistant_blocks, can_be_cached, is_blank, sent_id, text_block
from perdure.upp.providers.anthropic.json_answer import JSONAnswer
from perdure.upp.providers.anthropic.schema import PROVIDER
from perdure.upp.providers.anthropic.tool_use import tool_definitions, write_tool_choice
from perdure.upp.tool_call import ToolResult

_MAX_TOKENS = 4096
_EMPTY = "(empty)"
_IMAGE_TYPES = {
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}


def build_body(model_id: str, request: LLMRequest, answer: JSONAnswer | None, *, stream: bool) -> JSONObject:
    """Returns the body of one call: the request's `params`, and over them what the adapter writes itself.

    `max_tokens`, which the vendor requires, is 4096 where `params` have none, on top of a thinking budget.

    Raises:
        UPPError: INVALID_REQUEST if the request holds what the vendor cannot take.
    """
    _check_modalities(request.modalities)
    body: JSONObject = {**(request.params or {}), "model": model_id, "messages": _messages(request.messages)}
    body.pop("stream", None)
    if body.get("max_tokens") is None:
        body["max_tokens"] = _MAX_TOKENS + _thinking_budget(body)
    if request.system is not None and not _is_blank_system(request.system):
        body["system"] = request.system
    tools = tool_definitions(request, answer)
    if tools:
        body["tools"] = tools
    write_tool_choice(body, request, answer)
    if answer is not None and not answer.by_tool:
        config = body.get("output_config")
        body["output_config"] = {**(config if isinstance(config, dict) else {}), "format": answer.output_format()}
    if stream:
        body["stream"] = True
    return body


def _check_modalities(modalities: Sequence[str] | None) -> None:
    if modalities is not None and list(modalities) != ["text"]:
        raise refuse(f"modalities {list(modalities)!r}: the vendor answers in text only; leave them out", PROVIDER)


def _thinking_budget(body: JSONObject) -> int:
    match body.get("thinking"):
        case {"budget_tokens": int(budget)}:
            return budget
        case _:
            return 0


def _is_blank_system(system: str | list[JSONValue]) -> bool:
    return not system.strip() if isinstance(system, str) else not system


def _messages(messages: Sequence[Message]) -> list[JSONValue]:
    sent: list[JSONObject] = []
    for message in messages:
        blocks = _blocks(message)
        if blocks:
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            sent.append({"role": role, "content": [*_cached(blocks, message)]})
    if sent and sent[-1]["role"] == "assistant":
        sent[-1:] = _without_trailing_blanks(sent[-1])
    if not sent:
        raise refuse("there is nothing to send: all messages are empty answers; add a user message", PROVIDER)
    return [*sent]


def _blocks(message: Message) -> list[JSONObject]:
    match message:
        case AssistantMessage():
            return assistant_blocks(message)
        case ToolResultMessage():
            return [_tool_result(result) for result in message.results]
        case UserMessage():
            blocks = [_user_block(block) for block in message.content]
            return [block for block in blocks if not is_blank(block)] or [text_block(_EMPTY)]
        case _:
            raise TypeError(f"{type(message).__name__} is no message of UPP")


def _cached(blocks: list[JSONObject], message: Message) -> list[JSONObject]:
    """Returns the blocks, the last one with the `cache_control` of the message's own metadata."""
    control = (message.metadata or {}).get(PROVIDER, {}).get("cache_control")
    places = [index for index, block in enumerate(blocks) if can_be_cached(block)]
    if control is None or not places:
        return blocks
    marked = [*blocks]
    marked[places[-1]] = {**marked[places[-1]], "cache_control": control}
    return marked


def _without_trailing_blanks(message: JSONObject) -> list[JSONObject]:
    """Returns a conversation's last message, the model's, as the vendor accepts it: not ending in white space."""
    content = message["content"]
    match content:
        case [*before, {"type": "text", "text": str(text), **rest}]:
            return [{**message, "content": [*before, {"type": "text", "text": text.rstrip(), **rest}]}]
        case _:
            return [message]


def _tool_result(result: ToolResult) -> JSONObject:
    text = result.text if result.text.strip() else ""
    block: JSONObject = {"type": "tool_result", "tool_use_id": sent_id(result.tool_call_id), "content": text}
    if result.is_error:
        return {**block, "content": text or "Error", "is_error": True}  # an error without words is refused
    return block


def _user_block(block: ContentBlock) -> JSONObject:
    match block:
        case TextBlock():
            return text_block(block.text)
        case ImageBlock():
            return {"type": "image", "source": _image_source(block)}
        case DocumentBlock():
            title: JSONObject = {} if block.title is None else {"title": block.title}
            return {"type": "document", "source": _document_source(block), **title}
        case _:
            raise refuse(f"the vendor takes no {block.type}; send text, images or documents", PROVIDER)


def _image_source(block: ImageBlock) -> JSONObject:
    source = block.source
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    kind = _IMAGE_TYPES.get(block.mime_type.lower())
    if kind is None:
        raise refuse(f"the vendor takes no {block.mime_type}; convert it to JPEG, PNG, GIF or WebP", PROVIDER)
    return {"type": "base64", "media_type": kind, "data": base64_of(source)}


def _document_source(block: DocumentBlock) -> JSONObject:
    match block.source, block.mime_type.startswith("text/"):
        case TextSource(data=text), _:
            return {"type": "text", "media_type": "text/plain", "data": text}
        case Base64Source(data=data), True:
            return {"type": "text", "media_type": "text/plain", "data": decode_document(data, PROVIDER)}
        case Base64Source(data=data), False if block.mime_type == "application/pdf":
            return {"type": "base64", "media_type": "application/pdf", "data": data}
        case UrlSource(url=url), False if block.mime_type == "application/pdf":
            return {"type": "url", "url": url}
        case UrlSource(), _:
            raise refuse(f"the vendor fetches PDF only, not {block.mime_type}; send the text itself", PROVIDER)
        case _:
            raise refuse(f"the vendor takes no {block.mime_type}; send PDF or plain text", PROVIDER)
