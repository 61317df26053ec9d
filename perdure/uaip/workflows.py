"""`@workflow`: a class that holds stages and their transitions, as a workflow that a worker serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast, overload

from perdure.errors import InvalidInput
from perdure.uaip.bound_task import AgentTask, BoundTask, FunctionTask
from perdure.uaip.definition import DAY_S, Edge, StageSpec, WorkflowDefinition
from perdure.uaip.edge import Way
from perdure.uaip.graph import check_definition
from perdure.uaip.keys import check_keys
from perdure.uaip.names import name_of
from perdure.uaip.stages import StageDeclaration, stage_of, tasks_in
from perdure.uaip.tasks import TaskDeclaration, declaration_of, seconds
from perdure.upp.docstring import read_docstring

TRANSITIONS = "transitions"
INITIAL_STAGE = "initial_stage"


@dataclass(frozen=True, slots=True, eq=False)
class Workflow:
    """A workflow: its definition, and what carries its tasks out. Made by `@workflow` or `workflow_from_json`.

    Attributes:
        definition: what a session is pinned to.
        tasks: by stage and name.
    """

    definition: WorkflowDefinition
    tasks: Mapping[tuple[str, str], BoundTask]

    @property
    def name(self) -> str:
        """What clients ask for."""
        return self.definition.name

    def task(self, stage: str, name: str) -> BoundTask | None:
        """A task, or None: a session that is pinned to an older definition may ask for one that is no more."""
        return self.tasks.get((stage, name))


@overload
def workflow(cls: type, /) -> Workflow: ...


@overload
def workflow(
    *,
    name: str | None = None,
    description: str | None = None,
    ttl: float | timedelta | None = None,
    inputs: Sequence[str] | None = None,
) -> Callable[[type], Workflow]: ...


def workflow(
    cls: type | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    ttl: float | timedelta | None = None,
    inputs: Sequence[str] | None = None,
) -> Any:
    """Makes a workflow of a class; used with or without arguments.

    The class holds stages, named as it holds them (`TakeOrder` as `take_order`) unless they say otherwise; `transitions`, a dict from each stage
    to a list of stages, names of stages or `to(...)`; and perhaps `initial_stage`, by default the first stage.

    Args:
        cls: the class.
        name: what clients ask for; by default the class's name, `PurchaseApproval` as `purchase_approval`.
        description: by default the first paragraph of the docstring.
        ttl: how long a session lives after its last action, in seconds or a timedelta; by default 24 hours.
        inputs: the keys that clients may write by `state_input`; by default all that are not reserved.

    Raises:
        InvalidInput: a name, a transition or an option cannot be used, or a stage cannot be reached; the message says
            which and what to do.
    """

    def decorate(target: type) -> Workflow:
        if not isinstance(cast(object, target), type):
            raise InvalidInput(f"@workflow takes a class, got {target!r:.80}")
        title = name_of(target.__name__) if name is None else name
        what = f"workflow {title!r:.80}"
        if inputs is not None:
            check_keys([inputs] if isinstance(inputs, str) else inputs, f"{what}: inputs")
        stages = _stages(target, what)
        definition = WorkflowDefinition(
            name=title,
            initial_stage=_initial(target, stages, what),
            stages=_with_transitions(target, stages, what),
            description=read_docstring(target).summary if description is None else description,
            ttl_s=seconds(ttl, f"{what}: ttl") or DAY_S,
            inputs=None if inputs is None else tuple(inputs),
        )
        return Workflow(check_definition(definition), _bound(stages))

    return decorate if cls is None else decorate(cls)


def _stages(cls: type, what: str) -> dict[str, StageDeclaration]:
    """The stages by name."""
    found: dict[str, StageDeclaration] = {}
    for attribute, value in _attributes(cls):
        declaration = stage_of(value)
        if declaration is None:
            raise _not_a_stage(attribute, value, what)
        name = name_of(attribute) if declaration.name is None else declaration.name
        if name in found:
            raise InvalidInput(f"{what}: two stages are named {name!r}; names must differ")
        twice = next((other for other, known in found.items() if known is declaration), None)
        if twice is not None:
            raise InvalidInput(f"{what}: {twice!r} and {name!r} are one stage; make two classes, or one name")
        found[name] = declaration
    if not found:
        raise InvalidInput(f"{what} has no stage; put classes with @stage into it")
    return found


def _attributes(cls: type) -> Iterable[tuple[str, object]]:
    for owner in reversed(cls.__mro__[:-1]):
        for attribute, value in vars(owner).items():
            if not attribute.startswith("_") and attribute not in (TRANSITIONS, INITIAL_STAGE):
                yield attribute, value


def _not_a_stage(attribute: str, value: object, what: str) -> InvalidInput:
    if declaration_of(value) is not None:
        return InvalidInput(f"{what}: task {attribute!r} is outside a stage; put it into a class with @stage above it")
    if isinstance(value, type) and tasks_in(value):
        return InvalidInput(f"{what}: {value.__qualname__} has tasks but is no stage; put @stage above it")
    return InvalidInput(
        f"{what}: {attribute!r} is no stage; a workflow holds stages, {TRANSITIONS!r} and {INITIAL_STAGE!r} only"
    )


def _initial(cls: type, stages: dict[str, StageDeclaration], what: str) -> str:
    given = getattr(cls, INITIAL_STAGE, None)
    return next(iter(stages)) if given is None else _name_of(given, stages, f"{what}: initial_stage")


def _with_transitions(cls: type, stages: dict[str, StageDeclaration], what: str) -> tuple[StageSpec, ...]:
    given: object = getattr(cls, TRANSITIONS, {})
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{what}: transitions must be a dict from each stage to a list of stages")
    edges: dict[str, tuple[Edge, ...]] = {}
    for source, targets in cast("Mapping[object, object]", given).items():
        name = _name_of(source, stages, f"{what}: transitions from")
        if name in edges:
            raise InvalidInput(f"{what}: transitions has {name!r} twice, as a class and as a name")
        edges[name] = _edges(name, targets, stages, what)
    return tuple(_spec(name, declared, edges.get(name, ())) for name, declared in stages.items())


def _edges(source: str, targets: object, stages: dict[str, StageDeclaration], what: str) -> tuple[Edge, ...]:
    where = f"{what}: transitions from {source!r}"
    if isinstance(targets, str) or not isinstance(targets, Sequence):
        raise InvalidInput(f"{where} must be a list of stages, got {targets!r:.80}")
    ways = [
        item if isinstance(item, Way) else Way(cast(type, item), None) for item in cast("Sequence[object]", targets)
    ]
    return tuple(way.edge(_name_of(way.target, stages, f"{where} to")) for way in ways)


def _name_of(given: object, stages: dict[str, StageDeclaration], what: str) -> str:
    if isinstance(given, str) and given in stages:
        return given
    declaration = stage_of(given)
    found = next((name for name, known in stages.items() if declaration is not None and known is declaration), None)
    if found is None:
        shown = given.__qualname__ if isinstance(given, type) else repr(given)
        raise InvalidInput(f"{what} {shown:.80}: the workflow has no such stage; it has {', '.join(stages)}")
    return found


def _spec(name: str, declared: StageDeclaration, edges: tuple[Edge, ...]) -> StageSpec:
    tasks = tuple(item.spec for item in declared.tasks)
    return StageSpec(name, declared.description, tasks, declared.prerequisites, edges)


def _bound(stages: dict[str, StageDeclaration]) -> dict[tuple[str, str], BoundTask]:
    return {
        (name, item.spec.name): _bind(item, declared.made)
        for name, declared in stages.items()
        for item in declared.tasks
    }


def _bind(item: TaskDeclaration, owner: type) -> BoundTask:
    if item.agent is not None:
        return AgentTask(item.spec, item.agent)
    return FunctionTask(item.spec, item.function, owner)
