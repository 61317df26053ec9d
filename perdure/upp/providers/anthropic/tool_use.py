"""The tools of a request and which of them the model must call, in the vendor's words."""

from __future__ import annotations

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers.anthropic.json_answer import ANSWER_TOOL, JSONAnswer
from perdure.upp.providers.anthropic.schema import PROVIDER
from perdure.upp.tool_choice import ToolChoiceMode, ToolChoiceSetting, read_tool_choice
from perdure.upp.tools import Tool

_FORCED = (ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED)


def tool_definitions(request: LLMRequest, answer: JSONAnswer | None) -> list[JSONValue]:
    """Returns the tools: the request's, the one that stands for the answer, then those of `params` (server tools).

    While a call of the request's own tools is forced, the answer's tool is not there: it would be called instead.
    """
    tools: list[JSONValue] = [_definition(tool) for tool in request.tools]
    if _answers_by_tool(answer) and not _is_forced(_choice(request)):
        tools.append(answer.tool() if answer else None)
    given = (request.params or {}).get("tools")
    return [*tools, *given] if isinstance(given, list) else tools


def write_tool_choice(body: JSONObject, request: LLMRequest, answer: JSONAnswer | None) -> None:
    """Sets the body's `tool_choice`; without tools there is none.

    Where a tool stands for the answer, some tool must be called: that one alone, or any if the request has tools of
    its own, so that the answer still comes in the end. While the model thinks nothing can be forced: it is then free
    to call the answer's tool, and may also write the JSON as text.

    Raises:
        UPPError: INVALID_REQUEST if a call is to be forced while the model thinks.
    """
    setting, thinks = _choice(request), _thinks(body)
    if not body.get("tools"):
        body.pop("tool_choice", None)
    elif _is_forced(setting):
        if thinks:
            raise refuse(
                'tool_choice cannot force a call while thinking is on; use "auto" or params {"thinking": '
                '{"type": "disabled"}}',
                PROVIDER,
            )
        body["tool_choice"] = _written(setting, body)
    elif _answers_by_tool(answer) and not thinks:
        body["tool_choice"] = _choice_of_answer(setting, body)
    elif _answers_by_tool(answer):
        body["tool_choice"] = {**_parallel(body), "type": "auto"}
    elif setting is not None:
        body["tool_choice"] = _written(setting, body)


def _definition(tool: Tool) -> JSONObject:
    """Returns a tool with its own settings for this vendor, such as `cache_control` and `strict`."""
    settings = (tool.metadata or {}).get(PROVIDER, {})
    description: JSONObject = {"description": tool.description} if tool.description.strip() else {}
    return {**settings, "name": tool.name, **description, "input_schema": tool.parameters}


def _answers_by_tool(answer: JSONAnswer | None) -> bool:
    return answer is not None and answer.by_tool


def _choice(request: LLMRequest) -> ToolChoiceSetting | None:
    return read_tool_choice(request.tool_choice, request.tools, request.messages)


def _is_forced(setting: ToolChoiceSetting | None) -> bool:
    return setting is not None and setting.mode in _FORCED


def _thinks(body: JSONObject) -> bool:
    match body.get("thinking"):
        case {"type": str(kind)}:
            return kind != "disabled"
        case _:
            return False


def _choice_of_answer(setting: ToolChoiceSetting | None, body: JSONObject) -> JSONObject:
    tools = body["tools"]
    alone = isinstance(tools, list) and len(tools) == 1
    if alone or (setting is not None and setting.mode is ToolChoiceMode.NONE):
        return {"type": "tool", "name": ANSWER_TOOL}
    return {**_parallel(body), "type": "any"}


def _written(setting: ToolChoiceSetting | None, body: JSONObject) -> JSONObject:
    match setting:
        case ToolChoiceSetting(ToolChoiceMode.NONE):
            return {"type": "none"}
        case ToolChoiceSetting(ToolChoiceMode.REQUIRED):
            return {**_parallel(body), "type": "any"}
        case ToolChoiceSetting(ToolChoiceMode.NAMED, name):
            return {**_parallel(body), "type": "tool", "name": name}
        case _:
            return {**_parallel(body), "type": "auto"}


def _parallel(body: JSONObject) -> JSONObject:
    """Returns what the parameters' own choice says of parallel calls: it holds for every choice."""
    match body.get("tool_choice"):
        case {"disable_parallel_tool_use": bool(disabled)}:
            return {"disable_parallel_tool_use": disabled}
        case _:
            return {}
