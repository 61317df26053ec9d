"""A model call as the body of a Chat Completions request."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._bearer import is_own_address
from perdure.upp.providers._openai_tools import json_schema_format
from perdure.upp.providers.openai_completions.dialect import Dialect
from perdure.upp.providers.openai_completions.messages import to_messages
from perdure.upp.response_format import ResponseFormat, read_response_format
from perdure.upp.tool_choice import ToolChoiceMode, ToolChoiceSetting, read_tool_choice
from perdure.upp.tools import Tool


def to_body(request: LLMRequest, model_id: str, dialect: Dialect, *, stream: bool) -> JSONObject:
    """Returns the request's body: its params, and over them what it says itself.

    Raises:
        UPPError: INVALID_REQUEST if the vendor cannot take it.
    """
    own_address = is_own_address(request.config.base_url if request.config else None, dialect.base_url)
    body: JSONObject = dict(request.params or {})
    body["model"] = model_id
    body["messages"] = to_messages(
        request.system, request.messages, dialect, dialect.max_call_id if own_address else None
    )
    body.update(_tool_fields(request, body.get("tools"), dialect))
    wanted = read_response_format(request.response_format, request.structure)
    if wanted is not None:
        body["response_format"] = _response_format(wanted, dialect)
    elif request.response_format is not None:
        body["response_format"] = {"type": "text"}
    if request.modalities is not None and list(request.modalities) != ["text"]:
        body["modalities"] = _modalities(request.modalities, body, dialect)
    return body | _stream_fields(body, stream)


def _stream_fields(body: JSONObject, stream: bool) -> JSONObject:
    if stream:
        return {"stream": True, "stream_options": body.get("stream_options", {"include_usage": True})}
    body.pop("stream_options", None)  # the vendor refuses it without a stream
    return {"stream": False} if "stream" in body else {}


def _tool_fields(request: LLMRequest, extra: JSONValue, dialect: Dialect) -> JSONObject:
    choice = read_tool_choice(request.tool_choice, request.tools, request.messages)
    tools: list[JSONValue] = [_tool(tool, dialect) for tool in request.tools]
    tools.extend(extra if isinstance(extra, list) else [])
    if not tools:
        return {}
    return {"tools": tools} if choice is None else {"tools": tools, "tool_choice": _tool_choice(choice)}


def _tool(tool: Tool, dialect: Dialect) -> JSONObject:
    function: JSONObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    strict = (tool.metadata or {}).get(dialect.provider, {}).get("strict")
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoiceSetting) -> JSONValue:
    if choice.mode is ToolChoiceMode.NAMED:
        return {"type": "function", "function": {"name": choice.name}}
    return str(choice.mode)


def _response_format(wanted: ResponseFormat, dialect: Dialect) -> JSONObject:
    if wanted.schema is None:
        return {"type": "json_object"}
    schema = json_schema_format(wanted, wanted.schema, dialect.provider)
    return {"type": "json_schema", "json_schema": schema}


def _modalities(wanted: Sequence[str], body: JSONObject, dialect: Dialect) -> list[JSONValue]:
    unknown = [name for name in wanted if name not in dialect.output_modalities]
    if unknown:
        known = ", ".join(sorted(dialect.output_modalities))
        raise refuse(f"{dialect.provider} answers in {known}, not in {', '.join(unknown)}", dialect.provider)
    if "audio" in wanted and "audio" not in body:
        raise refuse('an answer in audio needs params={"audio": {"voice": ..., "format": ...}}', dialect.provider)
    return list(wanted)
