"""Which JSON Schemas Gemini can take for tools' parameters and structured answers.

Gemini documents the keywords that it follows and ignores the rest. What only narrows a value (`pattern`, `minLength`,
`default`) does no harm when it is ignored and goes out as it is; what says how a value is built would leave the model
guessing, so it is refused here. Source: the Gemini API, GenerationConfig.responseJsonSchema.
"""

from __future__ import annotations

from perdure.errors import InvalidInput
from perdure.upp import json_schema
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.providers._answer import refuse
from perdure.upp.providers.google.endpoint import PROVIDER
from perdure.upp.providers.google.recursion import endless_reference

_LEAVE_OUT = "leave it out and say it in `description`"
_REMEDIES = {
    "const": "use an `enum` of one value",
    "allOf": "write its schemas as one",
    "definitions": "use `$defs`",
    "$dynamicRef": "use `$ref`",
    "patternProperties": "use `additionalProperties`",
    "not": _LEAVE_OUT,
    "if": "use `anyOf`",
    "then": "use `anyOf`",
    "else": "use `anyOf`",
    "dependentSchemas": "use `anyOf`",
    "dependentRequired": _LEAVE_OUT,
    "propertyNames": _LEAVE_OUT,
    "contains": _LEAVE_OUT,
    "unevaluatedProperties": "use `additionalProperties`",
    "unevaluatedItems": "use `items`",
}


def check_schema(schema: JSONObject, what: str) -> None:
    """Returns if Gemini can take the schema.

    Args:
        schema: the whole schema; it is not changed.
        what: whose it is, for the error.

    Raises:
        UPPError: INVALID_REQUEST with the path of what Gemini cannot take, and the remedy.
    """
    try:
        json_schema.check_schema(schema, what)
    except InvalidInput as error:
        raise refuse(str(error), PROVIDER) from error
    for path, part in json_schema.walk(schema):
        for keyword, remedy in _REMEDIES.items():
            if keyword in part:
                raise _refusal(what, f"{path}.{keyword}", f"Gemini does not know `{keyword}`; {remedy}")
        _check_enum(part, path, what)
        _check_ref(part, path, what)
    pointer = endless_reference(schema)
    if pointer is not None:
        remedy = "make the property that leads back there optional; nullable is not enough"
        raise _refusal(what, pointer, f"Gemini unrolls recursion in optional properties only; {remedy}")


def _check_enum(part: JSONObject, path: str, what: str) -> None:
    values = part.get("enum")
    for index, value in enumerate(values if isinstance(values, list) else ()):
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            remedy = "use `anyOf` with a schema of that type"
            raise _refusal(what, f"{path}.enum[{index}]", f"Gemini's enums hold strings and numbers; {remedy}")


def _check_ref(part: JSONObject, path: str, what: str) -> None:
    ref = part.get("$ref")
    if not isinstance(ref, str):
        return
    beside = next((keyword for keyword in part if not keyword.startswith("$")), None)
    if beside is not None:
        remedy = 'write {"anyOf": [{"$ref": ...}], ...}, or move it into the definition'
        raise _refusal(what, f"{path}.{beside}", f"Gemini takes no `{beside}` beside `$ref`; {remedy}")
    if not ref.startswith("#"):
        raise _refusal(what, f"{path}.$ref", f"{ref!r} is outside the schema; move it into `$defs`")


def _refusal(what: str, path: str, problem: str) -> UPPError:
    return refuse(f"{what}: {path}: {problem}", PROVIDER)
