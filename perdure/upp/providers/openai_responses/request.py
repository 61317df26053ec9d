"""The body of a request to the Responses API."""

from __future__ import annotations

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._openai_tools import is_strict, json_schema_format
from perdure.upp.providers.openai_responses.dialect import Dialect
from perdure.upp.providers.openai_responses.items import system_item, to_items
from perdure.upp.response_format import ResponseFormat, read_response_format
from perdure.upp.tool_choice import ToolChoiceMode, ToolChoiceSetting, read_tool_choice
from perdure.upp.tools import Tool

_ENCRYPTED_REASONING = "reasoning.encrypted_content"


def build_body(request: LLMRequest, model_id: str, dialect: Dialect, *, stream: bool) -> JSONObject:
    """Returns the request's body: the caller's params, and over them what the request says.

    Raises:
        UPPError: INVALID_REQUEST if the service cannot do what is asked.
    """
    body: JSONObject = {**(request.params or {}), "model": model_id}
    _set_stream(body, dialect, stream=stream)
    _set_storage(body, dialect, model_id)
    body["input"] = _input(request, dialect, stored=body.get("store", dialect.keeps_answers) is not False)
    _set_tools(body, request, dialect)
    _set_format(body, request, dialect)
    _set_modalities(body, request, dialect)
    return body


def _input(request: LLMRequest, dialect: Dialect, *, stored: bool) -> list[JSONValue]:
    head: list[JSONValue] = [system_item(request.system, dialect.provider)] if request.system else []
    return head + to_items(request.messages, dialect, stored=stored)


def _set_stream(body: JSONObject, dialect: Dialect, *, stream: bool) -> None:
    body.pop("stream", None)
    if stream:
        body["stream"] = True
    elif body.get("background"):
        raise refuse(
            "an answer in the background is not waited for; stream it, or leave background out", dialect.provider
        )


def _set_storage(body: JSONObject, dialect: Dialect, model_id: str) -> None:
    """Has the vendor keep nothing and send its reasoning along: the caller has the history, for as long as it wants.

    Whoever says themselves what is stored, or uses what needs storage, is left alone.
    """
    if any(body.get(name) is not None for name in ("store", "background", "conversation")):
        return
    if dialect.keeps_answers:
        body["store"] = False
    models = dialect.reasoning_models
    if models is not None and (models.search(model_id) or body.get("reasoning")):
        given = body.get("include")
        listed = given if isinstance(given, list) else []
        body["include"] = listed if _ENCRYPTED_REASONING in listed else [*listed, _ENCRYPTED_REASONING]


def _set_tools(body: JSONObject, request: LLMRequest, dialect: Dialect) -> None:
    """Sets our tools, and the vendor's own from the params after them."""
    own = body.get("tools")
    tools: list[JSONValue] = [_tool(tool, dialect) for tool in request.tools]
    if tools:
        body["tools"] = [*tools, *(own if isinstance(own, list) else ())]
    choice = read_tool_choice(request.tool_choice, request.tools, request.messages)
    if choice is not None and body.get("tools"):
        body["tool_choice"] = _choice(choice)


def _tool(tool: Tool, dialect: Dialect) -> JSONObject:
    """Returns a tool; `strict` is always said, as the vendor else rewrites the schema so that it can be strict."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": is_strict(tool, dialect.provider),
    }


def _choice(choice: ToolChoiceSetting) -> JSONValue:
    if choice.mode is ToolChoiceMode.NAMED:
        return {"type": "function", "name": choice.name}
    return str(choice.mode)


def _set_format(body: JSONObject, request: LLMRequest, dialect: Dialect) -> None:
    wanted = read_response_format(request.response_format, request.structure)
    if wanted is None and request.response_format is None:
        return
    given = body.get("text")
    body["text"] = {**(given if isinstance(given, dict) else {}), "format": _format(wanted, dialect)}


def _format(wanted: ResponseFormat | None, dialect: Dialect) -> JSONObject:
    if wanted is None:
        return {"type": "text"}
    if wanted.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", **json_schema_format(wanted, wanted.schema, dialect.provider)}


def _set_modalities(body: JSONObject, request: LLMRequest, dialect: Dialect) -> None:
    wanted = list(request.modalities or ["text"])
    foreign = [modality for modality in wanted if modality not in {"text", *dialect.modalities}]
    if foreign:
        raise refuse(
            f"{dialect.provider} answers with {', '.join(sorted({'text', *dialect.modalities}))} here, not with "
            f"{', '.join(foreign)}; leave modalities out, or use a model of a provider that has them",
            dialect.provider,
        )
    if wanted != ["text"]:
        body["modalities"] = [*wanted]
