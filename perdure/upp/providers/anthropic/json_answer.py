"""How a JSON answer is asked for: by the vendor's structured output, or by a tool that stands for the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMRequest
from perdure.upp.providers._answer import refuse
from perdure.upp.providers.anthropic.schema import PROVIDER, why_no_input_schema, why_no_output_format
from perdure.upp.response_format import STRUCTURE_NAME, ResponseFormat, read_response_format
from perdure.upp.tools import Tool

ANSWER_TOOL = STRUCTURE_NAME
"""The tool by which the model gives its answer, where the vendor's structured output does not take the schema."""

_OLD_MODEL = re.compile(r"claude-(?:instant|v?[123](?![0-9])|(?:opus|sonnet)-4-(?:[01](?![0-9])|2025))")
_ASKED = "Give your final answer by calling this tool; its input is the answer."


@dataclass(frozen=True, slots=True)
class JSONAnswer:
    """A JSON answer that a request asks for.

    Attributes:
        by_tool: whether the model gives it as the input of `ANSWER_TOOL`; else the vendor enforces the schema.
    """

    schema: JSONObject
    by_tool: bool
    description: str | None = None

    def output_format(self) -> JSONObject:
        """Returns the vendor's `output_config.format`."""
        return {"type": "json_schema", "schema": self.schema}

    def tool(self) -> JSONObject:
        """Returns the definition of the tool that stands for the answer."""
        description = f"{self.description}\n\n{_ASKED}" if self.description else _ASKED
        return {"name": ANSWER_TOOL, "description": description, "input_schema": self.schema}


def read_json_answer(model_id: str, request: LLMRequest) -> JSONAnswer | None:
    """Returns the JSON answer that a request asks for, or None for plain text.

    Raises:
        UPPError: INVALID_REQUEST if the vendor can give no such answer.
    """
    wanted = read_response_format(request.response_format, request.structure)
    return None if wanted is None else _answer(model_id, wanted, request.tools)


def check_structure(model_id: str, structure: JSONObject, tools: Sequence[Tool]) -> None:
    """Looks at the schema of a structured answer.

    Raises:
        UPPError: INVALID_REQUEST if neither way of asking takes it.
    """
    _answer(model_id, ResponseFormat("json_schema", structure), tools)


def _answer(model_id: str, wanted: ResponseFormat, tools: Sequence[Tool]) -> JSONAnswer:
    schema = wanted.schema
    if schema is None:
        raise refuse('there is no "json_object" here; give {"type": "json_schema", "schema": {...}} instead', PROVIDER)
    problem = f"{model_id} has none" if _OLD_MODEL.search(model_id) else why_no_output_format(schema)
    if problem is None:
        return JSONAnswer(schema, by_tool=False)
    if wanted.strict:
        raise refuse(f"strict structured output cannot take the schema: {problem}; change that or strict", PROVIDER)
    no_tool = why_no_input_schema(schema)
    if no_tool is not None:
        raise refuse(f"the schema fits neither structured output ({problem}) nor a tool ({no_tool})", PROVIDER)
    if any(tool.name == ANSWER_TOOL for tool in tools):
        raise refuse(
            f"a tool '{ANSWER_TOOL}' stands for the answer, as structured output cannot take the schema ({problem}); "
            "rename your tool of that name",
            PROVIDER,
        )
    return JSONAnswer(schema, by_tool=True, description=wanted.description)
