"""`@stage`: a class whose methods with `@task` are the tasks of one stage."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from perdure.errors import InvalidInput
from perdure.uaip.tasks import TaskDeclaration, declaration_of
from perdure.upp.docstring import read_docstring

T = TypeVar("T", bound=type)

MARK = "__uaip_stage__"


@dataclass(frozen=True, slots=True)
class StageDeclaration:
    """What `@stage` noted at a class.

    Attributes:
        made: the class; each call of a task makes an instance of it.
        name: None to have the name under which the workflow holds it.
        description: for whoever goes there.
        prerequisites: keys that the state must have before it is entered.
        tasks: as declared; those of classes that it inherits from first.
    """

    made: type
    name: str | None
    description: str
    prerequisites: tuple[str, ...]
    tasks: tuple[TaskDeclaration, ...]


@overload
def stage(cls: T, /) -> T: ...


@overload
def stage(
    *, name: str | None = None, description: str | None = None, prerequisites: Sequence[str] = ()
) -> Callable[[T], T]: ...


def stage(
    cls: type | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    prerequisites: Sequence[str] = (),
) -> Any:
    """Makes a stage of a class; used with or without arguments. The class stays what it is.

    Each call of a task makes an instance, so that sessions share nothing but their state; what is to be shared, as a
    connection, stands in the module.

    Args:
        cls: its methods with `@task` are the tasks. It can be made without arguments.
        name: by default the one under which a workflow holds it, `TakeOrder` as `take_order`.
        description: by default the first paragraph of the docstring.
        prerequisites: keys that the shared state must have before this stage is entered; null is a value too.

    Raises:
        InvalidInput: it is no class, cannot be made without arguments, has two tasks of one name, or its outer class has
            a stage of that name already.
    """
    scope = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]  # a second class of that name replaces it

    def decorate(target: type) -> type:
        if not isinstance(cast(object, target), type):
            raise InvalidInput(f"@stage takes a class, got {target!r:.80}")
        what = f"stage {target.__qualname__}"
        _check_place(target, scope)
        _check_makeable(target, what)
        doc = read_docstring(target).summary if description is None else description
        declaration = StageDeclaration(target, name, doc, _keys(prerequisites, what), _tasks(target, what))
        setattr(target, MARK, declaration)
        return target

    return decorate if cls is None else decorate(cls)


def stage_of(value: object) -> StageDeclaration | None:
    """What `@stage` noted at this very class, or None; a subclass is no stage by that."""
    return cast("StageDeclaration | None", vars(value).get(MARK)) if isinstance(value, type) else None


def tasks_in(cls: type) -> dict[str, TaskDeclaration]:
    """The tasks of a class by attribute, those of classes that it inherits from first.

    Raises:
        InvalidInput: one is a static or class method.
    """
    found: dict[str, TaskDeclaration] = {}
    for owner in reversed(cls.__mro__):
        for attribute, value in vars(owner).items():
            _check_plain(value)
            declaration = declaration_of(value)
            if declaration is not None:
                found[attribute] = declaration
            else:
                found.pop(attribute, None)
    return found


def _check_plain(value: object) -> None:
    if isinstance(value, staticmethod | classmethod):
        inner = cast("staticmethod[..., object]", value).__func__
        if declaration_of(inner) is not None:
            raise InvalidInput(f"task {inner.__qualname__} must be a plain method with self")


def _tasks(cls: type, what: str) -> tuple[TaskDeclaration, ...]:
    found = tuple(tasks_in(cls).values())
    names = [item.spec.name for item in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{what}: two tasks are named {name!r}; names must differ")
    return found


def _keys(prerequisites: object, what: str) -> tuple[str, ...]:
    if isinstance(prerequisites, str) or not isinstance(prerequisites, Sequence):
        raise InvalidInput(f"{what}: prerequisites must be a list of keys of the state, as ['cart.items']")
    return tuple(cast("Sequence[str]", prerequisites))


def _check_place(cls: type, scope: dict[str, Any]) -> None:
    owner = cls.__qualname__.rpartition(".")[0]
    nested = bool(owner) and not owner.endswith("<locals>")
    if nested and stage_of(scope.get(cls.__name__)) is not None:
        raise InvalidInput(f"two stages are named {cls.__qualname__!r}; names must differ")


def _check_makeable(cls: type, what: str) -> None:
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise InvalidInput(f"{what}: a stage is made without arguments, for each call of a task ({error})") from None
    except ValueError:  # a class of C without a signature: that it can be made shows when it is
        return
