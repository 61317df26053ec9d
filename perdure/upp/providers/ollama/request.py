"""What is sent to Ollama: UPP's messages, tools and settings as the body of /api/chat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from perdure.upp.content import ContentBlock, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._media import base64_of
from perdure.upp.providers._tool_calls import arguments_object, names_of_calls
from perdure.upp.response_format import read_response_format
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tool_choice import ToolChoiceMode, read_tool_choice
from perdure.upp.tools import Tool

PROVIDER = "ollama"

_TOP_LEVEL = frozenset(
    {
        "format",
        "keep_alive",
        "logprobs",
        "messages",
        "model",
        "shift",
        "stream",
        "think",
        "tools",
        "top_logprobs",
        "truncate",
    }
)
"""The parameters that Ollama reads beside its `options`; it ignores options among them, and them among options."""

_THINKING = re.compile(r"<think>.*?</think>\s*", re.DOTALL)

WITH_TOOLS = (
    "Ollama cannot call tools in an answer whose form is given: the form binds the model from its first token. Leave "
    'the form or the tools out, or forbid calls with tool_choice "none"'
)


def build_body(model_id: str, request: LLMRequest, *, stream: bool) -> JSONObject:
    """Returns the body of one call.

    Raises:
        UPPError: INVALID_REQUEST if the request holds something that Ollama cannot take.
    """
    messages = [*_system(request.system), *_messages(request)]
    if not messages:
        raise refuse("there are no messages; Ollama would load the model and not answer", PROVIDER)
    if request.modalities is not None and list(request.modalities) != ["text"]:
        raise refuse(f"Ollama answers with text only, not with {', '.join(request.modalities)}", PROVIDER)
    body = _params(request.params or {})
    body |= {"model": model_id, "messages": messages, "stream": stream}
    body = _with_tools(body, request) | _format(request)
    if "format" in body and "tools" in body:
        raise refuse(WITH_TOOLS, PROVIDER)
    return body


def _params(params: Mapping[str, JSONValue]) -> JSONObject:
    nested = params.get("options", {})
    if not isinstance(nested, dict):
        raise refuse("params.options must be an object", PROVIDER)
    body: JSONObject = {name: value for name, value in params.items() if name in _TOP_LEVEL}
    options = nested | {name: value for name, value in params.items() if name not in {*_TOP_LEVEL, "options"}}
    if options:
        body["options"] = options
    return body


def _with_tools(body: JSONObject, request: LLMRequest) -> JSONObject:
    choice = read_tool_choice(request.tool_choice, request.tools, request.messages)
    mode = None if choice is None else choice.mode
    if mode in (ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED):
        raise refuse('Ollama cannot be made to call a tool; use tool_choice "auto" and say it in the prompt', PROVIDER)
    if mode is ToolChoiceMode.NONE:
        body.pop("tools", None)
    elif request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return body


def _tool(tool: Tool) -> JSONValue:
    function: JSONObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _format(request: LLMRequest) -> JSONObject:
    wanted = read_response_format(request.response_format, request.structure)
    if wanted is None:
        return {}
    if wanted.description is not None:
        raise refuse("Ollama takes no description beside a schema; write it into the schema", PROVIDER)
    return {"format": "json" if wanted.schema is None else wanted.schema}


def _system(system: str | list[JSONValue] | None) -> Iterator[JSONValue]:
    if isinstance(system, str):
        yield {"role": "system", "content": system}
    for block in system if isinstance(system, list) else ():
        match block:
            case str(text):
                yield {"role": "system", "content": text}
            case {"type": "text", "text": str(text), **rest} if not rest:
                yield {"role": "system", "content": text}
            case _:
                raise refuse(f"Ollama's system prompt is text, not {str(block)[:80]}", PROVIDER)


def _messages(request: LLMRequest) -> Iterator[JSONValue]:
    names = names_of_calls(request.messages)
    for message in request.messages:
        match message:
            case ToolResultMessage():
                yield from (_result(result, names) for result in message.results)
            case AssistantMessage():
                yield _assistant(message)
            case _:
                yield _said("user", message)


def _said(role: str, message: Message) -> JSONObject:
    text, images = _content(message.blocks())
    said: JSONObject = {"role": role, "content": text}
    if images:
        said["images"] = images
    return said


def _assistant(message: AssistantMessage) -> JSONObject:
    said = _said("assistant", message)
    said["content"] = _THINKING.sub("", str(said["content"]))
    thinking = "\n\n".join(block.text for block in message.reasoning)
    if thinking.strip():
        said["thinking"] = thinking
    if message.tool_calls:
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    return said


def _call(call: ToolCall) -> JSONValue:
    return {"function": {"name": call.tool_name, "arguments": arguments_object(call.arguments)}}


def _result(result: ToolResult, names: Mapping[str, str]) -> JSONValue:
    name = names.get(result.tool_call_id)
    head: JSONObject = {"role": "tool"} if name is None else {"role": "tool", "tool_name": name}
    return head | {"content": f"Error: {result.text}" if result.is_error else result.text}


def _content(blocks: Sequence[ContentBlock]) -> tuple[str, list[JSONValue]]:
    texts: list[str] = []
    images: list[JSONValue] = []
    for block in blocks:
        match block:
            case TextBlock():
                texts.append(block.text)
            case ImageBlock():
                images.append(_image(block))
            case ReasoningBlock():
                continue
            case _:
                raise refuse(f"Ollama takes text and images, no {block.type}; give its text instead", PROVIDER)
    return "\n".join(texts), images


def _image(block: ImageBlock) -> str:
    if isinstance(block.source, UrlSource):
        raise refuse(f"Ollama fetches no images; give the bytes of {block.source.url}", PROVIDER)
    return base64_of(block.source)
