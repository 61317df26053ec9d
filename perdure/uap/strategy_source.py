"""Where a worker finds a strategy of the user's own again: a global of its module, or a class and its options."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.uap.custom_strategy import is_resumable
from perdure.uap.execution import ExecutionStrategy
from perdure.uap.spec import StrategySpec
from perdure.upp.json_value import jsonable


def source_spec(strategy: ExecutionStrategy) -> StrategySpec | None:
    """The spec from which a worker has the same strategy again; None if it cannot be found."""
    kind = cast("type[Any]", type(strategy))
    resumable = is_resumable(strategy)
    for module_name in _modules_of(strategy):
        for name, value in vars(sys.modules[module_name]).items():
            if value is strategy:
                return StrategySpec(strategy.name, {}, f"{module_name}:{name}", resumable)
    options = _options(strategy)
    module = sys.modules.get(kind.__module__)
    if options is None or module is None or getattr(module, kind.__qualname__, None) is not kind:
        return None
    return StrategySpec(strategy.name, options, f"{kind.__module__}:{kind.__qualname__}", resumable)


def check_source(agent: str, strategy: ExecutionStrategy) -> None:
    """Refuse a strategy that a worker could not find.

    Raises:
        InvalidInput: it is no global of its module, and no class of its module with JSON options.
    """
    if source_spec(strategy) is None:
        raise InvalidInput(
            f"agent {agent!r}: a worker cannot find strategy {strategy.name!r} again. Assign it to a name of its module "
            "(my_strategy = MyStrategy(...)), or let its class be one of the module and have an attribute `options` "
            "with the JSON arguments that build it"
        )


def _modules_of(strategy: ExecutionStrategy) -> list[str]:
    functions = (type(strategy), getattr(strategy, "execute", None))
    names = [str(getattr(item, "__module__", "")) for item in functions]
    return [name for name in dict.fromkeys(names) if name in sys.modules]


def _options(strategy: object) -> dict[str, Any] | None:
    """What builds the strategy again from its class; None if that is not known."""
    options: object = getattr(strategy, "options", None)
    if options is None and dataclasses.is_dataclass(strategy) and not isinstance(strategy, type):
        names = [field.name for field in dataclasses.fields(strategy) if field.init]
        options = {name: getattr(strategy, name) for name in names}
    if not isinstance(options, dict):
        return {} if _takes_nothing(type(strategy)) else None
    try:
        return cast("dict[str, Any]", jsonable(cast(Any, options)))
    except TypeError:
        return None


def _takes_nothing(kind: type[object]) -> bool:
    return kind.__init__ is object.__init__
