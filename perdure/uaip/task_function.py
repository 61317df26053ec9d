"""A typed function as a task: its schemas, and its call with the arguments of a request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter

from perdure.errors import InvalidInput
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.upp.json_value import JSONObject
from perdure.upp.signature import ParameterSchema, Signature, read_signature
from perdure.upp.tools import ToolContext


@dataclass(frozen=True, slots=True)
class TaskFunction:
    """A function and what its annotations say.

    Attributes:
        function: as the user wrote it; of a stage's method the first parameter is the stage's instance.
        signature: of the parameters that a request fills.
        returns: JSON Schema of what it returns; None if its annotation is missing.
    """

    function: Callable[..., object]
    signature: Signature
    returns: JSONObject | None

    @property
    def takes_state(self) -> bool:
        """Whether it asks for the shared state."""
        return State in self.signature.hidden.values()

    def bind(self, arguments: JSONObject, state: State, context: TaskContext) -> dict[str, object]:
        """The keyword arguments of one call.

        Raises:
            InvalidInput: the arguments do not fit; the message lists every misfit.
        """
        given: dict[type, object] = {State: state, TaskContext: context, ToolContext: context}
        hidden = {name: given[kind] for name, kind in self.signature.hidden.items()}
        return self.signature.bind(arguments) | hidden


def read_function(
    function: Callable[..., object], names: Mapping[str, object], *, is_method: bool, what: str
) -> TaskFunction:
    """Returns a function as a task.

    Args:
        function: its parameters are annotated, but for `self`.
        names: what annotations written as strings may refer to besides the function's module.
        is_method: its first parameter is the stage's instance.
        what: what errors call it.

    Raises:
        InvalidInput: it is a generator, a parameter or the return type has no JSON Schema, or it lacks `self`.
    """
    _check_kind(function, what)
    if is_method:
        _check_self(function, what)
    visible = MethodType(function, _Instance()) if is_method else function
    signature = read_signature(visible, names, what=what, hidden=(State, TaskContext, ToolContext))
    return TaskFunction(function, signature, _returns(function, names, what))


class _Instance:
    """Stands for a stage where only the other parameters count."""


def _check_kind(function: object, what: str) -> None:
    if isinstance(function, staticmethod | classmethod):
        raise InvalidInput(f"{what}: a task is a plain method with self; take @staticmethod or @classmethod away")
    if isinstance(function, type) or not callable(function) or not hasattr(function, "__qualname__"):
        raise InvalidInput(f"{what}: a task is made of a function, not of {function!r:.80}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(f"{what} {function.__qualname__} is a generator; return a list instead")


def _check_self(function: Callable[..., object], what: str) -> None:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise InvalidInput(f"{what} {function.__qualname__} needs self as its first parameter")


def _returns(function: Callable[..., object], names: Mapping[str, object], what: str) -> JSONObject | None:
    annotation: Any = getattr(function, "__annotations__", {}).get("return", inspect.Parameter.empty)
    if annotation is inspect.Parameter.empty:
        return None
    label = f"{what} {function.__qualname__}"
    holder = type("Returns", (), {"__annotations__": {"value": annotation}})
    try:
        module_names = cast("dict[str, Any]", getattr(inspect.unwrap(function), "__globals__", {}))
        kind = get_type_hints(holder, module_names, dict(names), include_extras=True)["value"]
        schema = TypeAdapter[Any](kind).json_schema(schema_generator=ParameterSchema, mode="serialization")
    except Exception as error:
        raise InvalidInput(f"{label}: its return type {annotation!r:.80} has no JSON Schema: {error}") from error
    schema.pop("title", None)
    return cast(JSONObject, schema)
