"""A vendor's JSON in the shape that its adapter reads."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue

_Shape = TypeVar("_Shape", bound=BaseModel)


def read_shape(shape: type[_Shape], value: JSONValue, provider: str) -> _Shape:
    """Returns the value in its shape.

    Pydantic's own error is not kept as the cause: its text shows what the vendor said.

    Raises:
        UPPError: INVALID_RESPONSE if it has another; the message names the first wrong field.
    """
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"]) or "the whole"
    problem = f"the answer is not as the vendor documents it: {place}: {first['msg']}"
    raise UPPError(problem, ErrorCode.INVALID_RESPONSE, provider)
