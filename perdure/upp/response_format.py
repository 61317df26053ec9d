"""The form that an answer's text must have: the neutral form that every adapter reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject

STRUCTURE_NAME = "json_response"
"""What a structured answer's schema is called where a vendor wants a name."""

_SHAPES = '{"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "schema": {...}}'


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A JSON answer.

    Attributes:
        schema: a JSON Schema; None exactly if the type is "json_object".
        name: what the vendor calls the schema.
        strict: whether the vendor shall enforce the schema; None leaves it to the adapter.
    """

    type: Literal["json_object", "json_schema"]
    schema: JSONObject | None = None
    name: str = STRUCTURE_NAME
    description: str | None = None
    strict: bool | None = None


def read_response_format(response_format: JSONObject | None, structure: JSONObject | None) -> ResponseFormat | None:
    """Returns the JSON form that a request asks for, or None for plain text.

    Args:
        response_format: `{"type": "text" | "json_object"}` or `{"type": "json_schema", "schema": ..., "name"?,
            "description"?, "strict"?}`, also with these fields below `json_schema`, as OpenAI's Chat Completions has
            it.
        structure: the schema of a structured answer, whose data the caller wants.

    Raises:
        UPPError: INVALID_REQUEST if the format is none of these, or contradicts the structure.
    """
    wanted = _read(response_format)
    if structure is None:
        return wanted
    if wanted is not None:
        raise UPPError("give structure or response_format, not both", ErrorCode.INVALID_REQUEST)
    return ResponseFormat("json_schema", structure)


def _read(value: JSONObject | None) -> ResponseFormat | None:
    match value:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return ResponseFormat("json_object")
        case {"type": "json_schema", "json_schema": {"schema": dict()} as inner}:
            return _schema(inner)
        case {"type": "json_schema", "schema": dict()}:
            return _schema(value)
        case _:
            raise UPPError(f"response_format must be {_SHAPES}", ErrorCode.INVALID_REQUEST)


def _schema(source: JSONObject) -> ResponseFormat:
    schema = source["schema"]
    name, description, strict = source.get("name"), source.get("description"), source.get("strict")
    assert isinstance(schema, dict)
    return ResponseFormat(
        "json_schema",
        schema,
        name if isinstance(name, str) and name else STRUCTURE_NAME,
        description if isinstance(description, str) else None,
        strict if isinstance(strict, bool) else None,
    )
