"""Tools and structured answers as both of OpenAI's APIs take them; what they refuse is told before anything is sent.

How a tool and a format are written differs between the APIs, and is their request's part.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.json_value import JSONObject
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._strict_schema import function_problem, root_problem, strict_problem
from perdure.upp.response_format import ResponseFormat
from perdure.upp.tools import TOOL_NAME, Tool


def check_tools(
    tools: Sequence[Tool], structure: JSONObject | None, provider: str, *, checks_open_schemas: bool
) -> None:
    """Returns if the vendor is not known to refuse the tools or the structure.

    Args:
        tools: of one agent.
        structure: the schema of its answer.
        provider: the vendor; also where a tool's metadata says `strict`.
        checks_open_schemas: whether the vendor refuses arrays without "items" and tools without "properties".

    Raises:
        UPPError: INVALID_REQUEST; it names the tool, the JSON path and the remedy.
    """
    names: set[str] = set()
    for tool in tools:
        if tool.name in names:
            raise refuse(f"there are two tools {tool.name!r}; rename one", provider)
        names.add(tool.name)
        _check_tool(tool, provider, checks_open_schemas=checks_open_schemas)
    problem = None if structure is None else root_problem(structure)
    if problem is not None:
        raise refuse(f"structure: {problem}", provider)


def is_strict(tool: Tool, provider: str) -> bool:
    """Returns whether a tool asks for arguments that the vendor enforces."""
    return (tool.metadata or {}).get(provider, {}).get("strict") is True


def json_schema_format(wanted: ResponseFormat, schema: JSONObject, provider: str) -> JSONObject:
    """Returns a structured answer's name, description, schema and strictness.

    It is strict where the schema allows it, unless the caller says otherwise.

    Raises:
        UPPError: INVALID_REQUEST if the vendor takes no such name or schema.
    """
    if TOOL_NAME.fullmatch(wanted.name) is None:
        raise refuse(f"the format's name {wanted.name!r} must be 1 to 64 letters, digits, '_' or '-'", provider)
    problem = root_problem(schema)
    if problem is not None:
        raise refuse(f"the answer's schema: {problem}", provider)
    problem = strict_problem(schema)
    if wanted.strict and problem is not None:
        raise refuse(f"the answer's schema cannot be strict: {problem}; or leave strict out", provider)
    described: JSONObject = {} if wanted.description is None else {"description": wanted.description}
    strict = problem is None if wanted.strict is None else wanted.strict
    return {"name": wanted.name, **described, "schema": schema, "strict": strict}


def _check_tool(tool: Tool, provider: str, *, checks_open_schemas: bool) -> None:
    if TOOL_NAME.fullmatch(tool.name) is None:
        raise refuse(f"tool {tool.name!r}: a name is 1 to 64 letters, digits, '_' or '-'", provider)
    problem = function_problem(tool.parameters) if checks_open_schemas else root_problem(tool.parameters)
    if problem is not None:
        raise refuse(f"tool {tool.name!r}: {problem}", provider)
    problem = strict_problem(tool.parameters) if is_strict(tool, provider) else None
    if problem is not None:
        raise refuse(f"tool {tool.name!r} cannot be strict: {problem}; or take strict out", provider)
