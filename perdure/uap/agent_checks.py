"""What an agent's definition is refused for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4
from perdure.uap.middleware import Middleware
from perdure.uap.spec import STAGED
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_schema import check_schema
from perdure.upp.json_value import JSONObject, jsonable
from perdure.upp.provider import ModelReference
from perdure.upp.tools import Tool

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


def check_identity(name: str | None, id: str | None) -> None:
    """Refuse a name or an id that could not stand in ids, commands and addresses.

    Raises:
        InvalidInput: one of them is such.
    """
    if name is not None and not _NAME.match(name):
        raise InvalidInput(f"agent name {name!r} cannot be used; 1 to 64 letters, digits, '_', '.' or '-'")
    if id is not None and not is_uuid4(id):
        raise InvalidInput(f"agent id {id!r} is not a UUIDv4; leave it out to get one from the name")


def check_depth(max_depth: object) -> None:
    """Refuse a depth limit that is none. Raises InvalidInput."""
    if not isinstance(max_depth, int) or isinstance(max_depth, bool) or max_depth < 0:
        raise InvalidInput(f"max_depth is {max_depth!r:.80}; it must be a whole number of at least 0")


def check_walk(strategy: str, walked: object) -> None:
    """Refuse the strategy that walks a workflow without one. Raises InvalidInput."""
    if strategy == STAGED and walked is None:
        raise InvalidInput("execution 'staged' needs its workflow: execution=staged(Store)")


def check_model(model: object) -> None:
    """Refuse what is neither a model nor None. Raises InvalidInput."""
    if model is not None and not isinstance(model, ModelReference):
        raise InvalidInput(f"model is a {type(model).__name__}; it must come from a provider, as scripted([...]) does")


def missing_model(agent: str) -> UPPError:
    """The error of an agent that is to be run without a model. It is not raised here."""
    return UPPError(
        f"agent {agent!r} has no model, and no parent agent to inherit one from; give it one: agent(model=..., ...)",
        ErrorCode.INVALID_REQUEST,
        "perdure",
    )


def check_middleware(middleware: Sequence[Middleware]) -> None:
    """Refuse what is no middleware. Raises InvalidInput."""
    for item in middleware:
        if not isinstance(cast(object, item), Middleware):
            raise InvalidInput(
                f"{item!r:.80} is not middleware; make a subclass of Middleware, or use perdure.middleware"
            )


def check_tools(tools: Sequence[object], agent: type) -> None:
    """Refuse what is neither a tool nor an agent.

    Args:
        tools: what was given.
        agent: the class of agents, which the checks cannot import.

    Raises:
        InvalidInput: one of them is such.
    """
    for item in tools:
        if not isinstance(item, Tool | agent):
            raise InvalidInput(f"{item!r} is not a tool; make one from a typed function with @tool")


def checked_structure(structure: JSONObject | None) -> JSONObject | None:
    """A copy of the schema of an agent's answers. Raises InvalidInput if it is no JSON Schema."""
    if structure is None:
        return None
    if not isinstance(cast(object, structure), dict):
        raise InvalidInput(f"structure is a {type(structure).__name__}; it must be a JSON Schema, or left out")
    try:
        made = cast(JSONObject, jsonable(structure))
    except TypeError as error:
        raise InvalidInput(f"structure must be JSON: {error}") from error
    check_schema(made, "structure")
    return made


def check_names(tools: Sequence[Tool]) -> None:
    """Refuse tools that a model could take for one another.

    Raises:
        InvalidInput: two names differ in nothing, or only in case or in `-` and `_`.
    """
    seen: dict[str, str] = {}
    for item in tools:
        folded = item.name.replace("-", "_").lower()
        if folded in seen:
            raise InvalidInput(f"tools {seen[folded]!r} and {item.name!r} cannot be told apart; give one another name")
        seen[folded] = item.name


def check_fit(model: ModelReference, tools: Sequence[Tool], structure: JSONObject | None) -> None:
    """Refuse tools and a structure that the model's provider would refuse.

    Raises:
        UPPError: INVALID_REQUEST; the message says which.
    """
    bound = model.bind()
    if structure is not None and not bound.capabilities.structured_output:
        raise UPPError(
            "the provider has no structured output; leave structure out, or use another provider",
            ErrorCode.INVALID_REQUEST,
            bound.provider,
        )
    bound.check(tools, structure)
