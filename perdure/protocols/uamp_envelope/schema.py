r"""The three JSON Schemas of UAMP, and the check of a value against one.

The files differ from the specification's appendix A in this: `format` is a pattern, because formats assert nothing by
default and `uuid` would refuse the `urn:uuid:` form of the specification's own examples; the invalid escape of the
manifest's pattern is mended; a pattern ends with `$(?!\n)`, which is the same to ECMA's and keeps Python's `$` from
letting a line feed pass. Source: UAMP envelope 1.0, appendix A.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from perdure.protocols.uamp_envelope.error import malformed
from perdure.upp.json_value import JSONObject

SchemaName = Literal["envelope", "delta", "manifest"]

_MAX_SHOWN = 200
_SECRETS = ("cap_token", "sig")  # never repeated in a message


def schema(name: SchemaName) -> JSONObject:
    """The schema as its file has it, a fresh copy."""
    text = files("perdure.protocols.uamp_envelope").joinpath("schemas", f"{name}-1.0.json").read_text(encoding="utf-8")
    return cast(JSONObject, json.loads(text))


def check_schema(name: SchemaName, value: JSONObject) -> None:
    """Checks a value against a schema.

    Raises:
        UAMPError: 4.00; the message names the place and what is wrong with it.
    """
    faults = cast("Iterator[ValidationError]", cast(Any, _validator(name)).iter_errors(value))
    fault = next(faults, None)  # the first is enough: a hostile value may have a hundred thousand
    if fault is not None:
        is_secret = bool(fault.path) and fault.path[0] in _SECRETS
        what = "must be a text" if is_secret else fault.message[:_MAX_SHOWN]
        raise malformed(f"{name} {fault.json_path}: {what}")


@cache
def _validator(name: SchemaName) -> Draft202012Validator:
    return Draft202012Validator(schema(name))
