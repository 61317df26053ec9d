"""A model call as the body of Gemini's `generateContent`."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers.google.contents import contents_of
from perdure.upp.providers.google.endpoint import PROVIDER, is_before_gemini_3
from perdure.upp.providers.google.schema import check_schema
from perdure.upp.response_format import ResponseFormat, read_response_format
from perdure.upp.tool_choice import ToolChoiceMode, ToolChoiceSetting, read_tool_choice
from perdure.upp.tools import Tool

_TOP_LEVEL = frozenset(
    {
        "cachedContent",
        "contents",
        "generationConfig",
        "labels",
        "safetySettings",
        "serviceTier",
        "store",
        "systemInstruction",
        "toolConfig",
        "tools",
    }
)
_MODES = {
    ToolChoiceMode.AUTO: "AUTO",
    ToolChoiceMode.NONE: "NONE",
    ToolChoiceMode.REQUIRED: "ANY",
    ToolChoiceMode.NAMED: "ANY",
}
_MODALITIES = ("TEXT", "IMAGE", "AUDIO")


def build_body(request: LLMRequest, model_id: str) -> JSONObject:
    """Returns the request's body.

    Of `params`, Gemini's top-level fields stay where they are, a `generationConfig` is taken as it is, and everything
    else goes into it.

    Raises:
        UPPError: INVALID_REQUEST for what Gemini cannot take.
    """
    params = request.params or {}
    body = {name: value for name, value in params.items() if name in _TOP_LEVEL}
    body["contents"] = contents_of(request.messages, needs_signatures=not is_before_gemini_3(model_id))
    if request.system:
        body["systemInstruction"] = {"parts": _system_parts(request.system)}
    _add_tools(body, request)
    config = _generation_config(request, params, model_id)
    if config:
        body["generationConfig"] = config
    return body


def check_structure_with_tools(model_id: str) -> None:
    """Returns if the model can answer in JSON while it has tools.

    Raises:
        UPPError: INVALID_REQUEST if it is older than Gemini 3.
    """
    if is_before_gemini_3(model_id):
        raise refuse(
            f"{model_id} takes tools or a JSON answer, not both; use a model of Gemini 3 or later, or two calls",
            PROVIDER,
        )


def _system_parts(system: str | list[JSONValue]) -> list[JSONValue]:
    blocks = [system] if isinstance(system, str) else system
    return [{"text": block} if isinstance(block, str) else block for block in blocks]


def _add_tools(body: JSONObject, request: LLMRequest) -> None:
    choice = read_tool_choice(request.tool_choice, request.tools, request.messages)
    if request.tools:
        declared: JSONObject = {"functionDeclarations": [_declaration(tool) for tool in request.tools]}
        given = body.get("tools")
        body["tools"] = [declared, *(given if isinstance(given, list) else ())]
        if choice is not None:
            body["toolConfig"] = _tool_config(body.get("toolConfig"), choice)
    match body.get("toolConfig"):
        case {"functionCallingConfig": {"streamFunctionCallArguments": True}}:
            raise refuse("the Gemini API streams no function call's arguments; leave that setting out", PROVIDER)
        case _:
            pass


def _declaration(tool: Tool) -> JSONObject:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def _tool_config(given: JSONValue, choice: ToolChoiceSetting) -> JSONObject:
    config = given if isinstance(given, dict) else {}
    calling = config.get("functionCallingConfig")
    kept = dict(calling) if isinstance(calling, dict) else {}
    kept.pop("allowedFunctionNames", None)
    kept["mode"] = _MODES[choice.mode]
    if choice.mode is ToolChoiceMode.NAMED:
        kept["allowedFunctionNames"] = [choice.name]
    joined = dict(config)
    joined["functionCallingConfig"] = kept
    return joined


def _generation_config(request: LLMRequest, params: JSONObject, model_id: str) -> JSONObject:
    given = params.get("generationConfig")
    config = given if isinstance(given, dict) else {}
    config = config | {name: value for name, value in params.items() if name not in _TOP_LEVEL}
    if config.get("candidateCount") not in (None, 1):
        raise refuse("candidateCount must be 1: a model call has one answer; make several calls instead", PROVIDER)
    answer = read_response_format(request.response_format, request.structure)
    if answer is not None:
        if request.tools:
            check_structure_with_tools(model_id)
        config |= _answer_format(answer, config)
    if request.modalities is not None and list(request.modalities) != ["text"]:
        config["responseModalities"] = _modalities(request.modalities)
    return config


def _answer_format(answer: ResponseFormat, config: JSONObject) -> JSONObject:
    if answer.schema is None:
        return {"responseMimeType": "application/json"}
    if "responseSchema" in config:
        raise refuse("give a structure or response_format, or params.responseSchema, not both", PROVIDER)
    check_schema(answer.schema, "the structured answer's schema")
    return {"responseMimeType": "application/json", "responseJsonSchema": answer.schema}


def _modalities(modalities: Sequence[str]) -> list[JSONValue]:
    names = [modality.upper() for modality in modalities]
    unknown = [name for name in names if name not in _MODALITIES]
    if unknown or not names:
        known = ", ".join(name.lower() for name in _MODALITIES)
        raise refuse(f"modalities {list(modalities)!r} must be some of {known}", PROVIDER)
    return [*names]
