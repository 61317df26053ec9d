"""What a workflow's definition is refused for, in Python and in JSON alike."""

from __future__ import annotations

import math
from collections.abc import Iterable

from perdure.errors import InvalidInput
from perdure.uaip.definition import StageSpec, TaskSpec, WorkflowDefinition
from perdure.uaip.http_call import check_http_call
from perdure.uaip.keys import check_keys
from perdure.uaip.names import check_name, check_task_name
from perdure.uaip.retry import check_retry
from perdure.upp.json_schema import check_schema, references
from perdure.upp.json_value import JSONObject
from perdure.upp.tools import ToolEffect

_MAY_RUN_TWICE = (ToolEffect.NONE, ToolEffect.IDEMPOTENT)


def check_definition(definition: WorkflowDefinition) -> WorkflowDefinition:
    """Returns the definition if a session can walk it.

    Raises:
        InvalidInput: a name, a key, a schema or an option cannot be used; a transition leads to no stage, or a stage
            cannot be reached or never be entered. The message says where and what to do.
    """
    check_name(definition.name, "workflow")
    what = f"workflow {definition.name!r}"
    if not definition.stages:
        raise InvalidInput(f"{what} has no stage; it needs at least one")
    _check_time(definition.ttl_s, f"{what}: ttl")
    check_keys(definition.inputs or (), f"{what}: inputs")
    _check_unique((stage.name for stage in definition.stages), f"{what}: two stages are named")
    for stage in definition.stages:
        check_name(stage.name, f"{what}: a stage")
        _check_stage(stage, f"{what}: stage {stage.name!r}")
    _check_graph(definition, what)
    return definition


def _check_stage(stage: StageSpec, what: str) -> None:
    check_keys(stage.prerequisites, f"{what}: prerequisites")
    _check_unique((task.name for task in stage.tasks), f"{what}: two tasks are named")
    _check_unique((edge.target for edge in stage.transitions), f"{what}: two transitions lead to")
    for task in stage.tasks:
        check_task_name(task.name, what)
        _check_task(task, f"{what}: task {task.name!r}")


def _check_task(task: TaskSpec, what: str) -> None:
    if task.effect not in tuple(ToolEffect):
        raise InvalidInput(f"{what}: effect {task.effect!r:.40} must be one of {', '.join(ToolEffect)}")
    check_retry(task.retry, f"{what}: retry")
    if task.retry.attempts > 1 and task.effect not in _MAY_RUN_TWICE:
        raise InvalidInput(
            f"{what} has effect {task.effect!r}, so it cannot be tried again; say effect='none' if it changes nothing, "
            "effect='idempotent' if it honours its key, or leave retry out"
        )
    for timeout in (task.timeout_s, task.approval_timeout_s):
        if timeout is not None:
            _check_time(timeout, f"{what}: timeout")
    if task.approval_timeout_s is not None and not task.approval:
        raise InvalidInput(f'{what}: approval_timeout needs approval="human"')
    if task.parameters.get("type") != "object":
        raise InvalidInput(f"{what}: parameters must be a JSON Schema of type 'object'")
    _check_schema(task.parameters, f"{what}: parameters")
    if task.returns is not None:
        _check_schema(task.returns, f"{what}: returns")
    if task.http is not None:
        check_http_call(task.http, task.parameters, what)
    check_keys([task.save_as] if task.save_as else [], f"{what}: save_as")


def _check_schema(schema: JSONObject, what: str) -> None:
    check_schema(schema, what)
    for path, ref in references(schema):
        if not ref.startswith("#"):
            raise InvalidInput(f"{what}: at {path}: $ref {ref!r:.80} leads out of the schema; nothing is fetched")


def _check_graph(definition: WorkflowDefinition, what: str) -> None:
    names = definition.stage_names
    if definition.initial_stage not in names:
        raise InvalidInput(f"{what}: initial_stage {definition.initial_stage!r:.80} is no stage; {_there_are(names)}")
    for stage in definition.stages:
        for edge in stage.transitions:
            target = definition.stage(edge.target)
            where = f"{what}: the transition from {stage.name!r} to {edge.target!r:.80}"
            if target is None:
                raise InvalidInput(f"{where} leads to no stage; {_there_are(names)}")
            check_keys(edge.keep or (), f"{where}: keep")
            lost = [key for key in target.prerequisites if edge.keep is not None and key not in edge.keep]
            if lost:
                raise InvalidInput(
                    f"{where} can never be taken: {edge.target!r} needs {', '.join(lost)}, which this way does not "
                    "keep. Add it to keep, or take it from the prerequisites"
                )
    _check_reachable(definition, what)


def _check_reachable(definition: WorkflowDefinition, what: str) -> None:
    reached = [definition.initial_stage]
    for name in reached:
        stage = definition.stage(name)
        reached.extend(edge.target for edge in (stage.transitions if stage else ()) if edge.target not in reached)
    lost = [name for name in definition.stage_names if name not in reached]
    if lost:
        raise InvalidInput(
            f"{what}: no way leads from {definition.initial_stage!r} to {', '.join(map(repr, lost))}; "
            "add a transition, or leave the stage out"
        )


def _check_unique(names: Iterable[str], problem: str) -> None:
    seen: list[str] = []
    for name in names:
        if name in seen:
            raise InvalidInput(f"{problem} {name!r:.80}; names must differ")
        seen.append(name)


def _check_time(seconds: float, what: str) -> None:
    if not math.isfinite(seconds) or seconds <= 0:
        raise InvalidInput(f"{what} must be above zero seconds, got {seconds!r}")


def _there_are(names: Iterable[str]) -> str:
    return f"there are {', '.join(map(repr, names))}"
