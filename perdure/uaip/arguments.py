"""A task's arguments and its result against their JSON Schemas, without turning one JSON type into another.

Not called in workflow code: a large value or a slow pattern would hold its thread up.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from perdure.errors import InvalidInput
from perdure.uaip.refusal import Reason, Refusal
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MAX_PROBLEMS = 20
"""So many misfits are listed at most."""

_SHOWN = 200


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Iterable[ValidationError]: ...


def argument_problems(parameters: JSONObject, arguments: JSONObject) -> list[str]:
    """What of the arguments does not fit a task's schema, each with its path, as `$.quantity: ...`; empty if all fits.

    Args:
        parameters: the schema of the definition that the session is pinned to.
        arguments: as the client sent them.
    """
    return _problems(parameters, arguments)


def with_defaults(parameters: JSONObject, arguments: JSONObject) -> JSONObject:
    """The arguments and the defaults of those that are absent. Nested objects are left as they are."""
    properties = parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    defaults = {
        name: inner["default"] for name, inner in known.items() if isinstance(inner, dict) and "default" in inner
    }
    return defaults | arguments


def misfit(task: str, problems: list[str]) -> Refusal:
    """The refusal of a call whose arguments do not fit; nothing was run."""
    detail = f"Invalid arguments for task '{task}': {'; '.join(problems)}"
    return Refusal(Reason.INVALID_ARGUMENTS, detail, {"task": task, "errors": list[JSONValue](problems)})


def check_result(task: str, returns: JSONObject | None, result: JSONValue) -> None:
    """Refuse a result that is not what the task says it returns: clients rely on it.

    Raises:
        InvalidInput: it does not fit; the message lists the misfits.
    """
    problems = _problems(returns, result) if returns is not None else []
    if problems:
        raise InvalidInput(f"task '{task}' returned what its definition does not allow: {'; '.join(problems)}")


def _problems(schema: JSONObject, value: JSONValue) -> list[str]:
    found: list[str] = []
    try:
        for error in _validator(dumps(schema)).iter_errors(value):
            found.append(f"{error.json_path}: {_short(error.message)}")
            if len(found) == MAX_PROBLEMS:
                break
    except RecursionError:
        return ["$: nested too deeply"]
    return sorted(found)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@lru_cache(512)
def _validator(data: bytes) -> _Validator:
    from jsonschema import Draft202012Validator  # slow to import, not always needed
    from referencing import Registry

    # An empty registry: by default a reference to an address would be fetched.
    registry: Registry[Any] = cast(Any, Registry)()
    return cast(_Validator, Draft202012Validator(cast(Any, loads(data)), registry=registry))
