"""A workflow from a JSON document, whose tasks are HTTP calls, registered functions or agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from perdure.errors import InvalidInput
from perdure.uaip.bound_task import AgentTask, BoundTask, FunctionTask, HttpTask
from perdure.uaip.definition import Edge, StageSpec, TaskSpec, WorkflowDefinition
from perdure.uaip.document_form import NO_ARGUMENTS, EdgeForm, HttpForm, StageForm, TaskForm, WorkflowForm
from perdure.uaip.document_text import read_document
from perdure.uaip.edge import kept
from perdure.uaip.graph import check_definition
from perdure.uaip.http_call import HttpCall
from perdure.uaip.json_form import describe
from perdure.uaip.retry import NO_RETRY, RetrySpec
from perdure.uaip.task_function import read_function
from perdure.uaip.workflows import Workflow
from perdure.uap.agent import Agent
from perdure.upp.docstring import read_docstring
from perdure.upp.json_value import JSONObject
from perdure.upp.tools import ToolEffect

WHAT = "workflow document"
_OPEN = ("additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref")
_KINDS = ("function", "http", "agent")


def workflow_from_json(
    document: JSONObject | str | bytes,
    *,
    functions: Mapping[str, Callable[..., object]] | None = None,
    agents: Sequence[Agent] = (),
) -> Workflow:
    """Returns the workflow of a document: JSON text, or its value.

        {"name": "store", "stages": {
            "browse": {"tasks": {"search": {
                "description": "Search the shop.",
                "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
                "http": {"url": "https://shop.example/products", "query": {"q": {"$arg": "query"}}},
                "save_as": "found"}}},
            "checkout": {"prerequisites": ["cart.items"], "tasks": {"pay": {"function": "pay"}}}},
         "transitions": {"browse": ["checkout"], "checkout": [{"to": "browse", "keep": ["cart.items"]}]}}

    A schema of parameters that does not say what other members may come takes none.

    Args:
        document: of text an object with a member twice is refused too.
        functions: by the names that the document uses; they have no self, and may take `State` and `TaskContext`.
        agents: by whose names the document calls them.

    Raises:
        InvalidInput: the document has not that form, or the workflow cannot be walked; the message gives the paths.
    """
    value = read_document(document) if isinstance(document, str | bytes) else document
    try:
        form = WorkflowForm.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(f"{WHAT}: {describe(error)}") from error
    for source in form.transitions:
        if source not in form.stages:
            raise InvalidInput(
                f"{WHAT}: $.transitions.{source}: no stage is named so; there are {', '.join(form.stages)}"
            )
    known = _Known(functions or {}, {agent.name: agent for agent in agents if agent.name is not None})
    tasks = {
        (stage, name): _task(task, name, f"$.stages.{stage}.tasks.{name}", known)
        for stage, inner in form.stages.items()
        for name, task in inner.tasks.items()
    }
    return Workflow(check_definition(_definition(form, tasks)), tasks)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the document's tasks can name."""

    functions: Mapping[str, Callable[..., object]]
    agents: Mapping[str, Agent]


def _definition(form: WorkflowForm, tasks: Mapping[tuple[str, str], BoundTask]) -> WorkflowDefinition:
    if not form.stages:
        raise InvalidInput(f"{WHAT}: $.stages: a workflow needs at least one stage")
    stages: list[StageSpec] = []
    for name, stage in form.stages.items():
        _check_inner_name(stage.name, name, f"$.stages.{name}")
        specs = tuple(task.spec for (owner, _), task in tasks.items() if owner == name)
        edges = tuple(_edge(edge) for edge in form.transitions.get(name, ()))
        stages.append(_stage(name, stage, specs, edges))
    return WorkflowDefinition(
        name=form.name,
        initial_stage=next(iter(form.stages)) if form.initial_stage is None else form.initial_stage,
        stages=tuple(stages),
        description=form.description,
        ttl_s=form.ttl_s,
        inputs=None if form.inputs is None else tuple(form.inputs),
    )


def _stage(name: str, stage: StageForm, tasks: tuple[TaskSpec, ...], edges: tuple[Edge, ...]) -> StageSpec:
    return StageSpec(name, stage.description, tasks, tuple(stage.prerequisites), edges)


def _edge(edge: EdgeForm) -> Edge:
    return Edge(edge.to, kept(edge.keep, f"{WHAT}: transition to {edge.to!r}"))


def _task(task: TaskForm, name: str, path: str, known: _Known) -> BoundTask:
    _check_inner_name(task.name, name, path)
    given = [kind for kind in _KINDS if getattr(task, kind) is not None]
    if len(given) != 1:
        raise InvalidInput(
            f"{WHAT}: {path}: exactly one of {', '.join(_KINDS)} carries it out; it has {given or 'none'}"
        )
    if task.http is not None:
        return _http_task(task, task.http, name)
    if task.agent is not None:
        return _agent_task(task, task.agent, name, path, known)
    return _function_task(task, task.function or "", name, path, known)


def _http_task(task: TaskForm, http: HttpForm, name: str) -> HttpTask:
    call = HttpCall(http.method, http.url, http.query, http.headers, http.body, http.idempotency_header)
    harmless = ToolEffect.NONE if http.method in ("GET", "HEAD") else ToolEffect.AT_MOST_ONCE
    spec = _spec(task, name, effect=task.effect or harmless, parameters=_closed(task.parameters), returns=task.returns)
    return HttpTask(replace(spec, kind="http", http=call), call)


def _agent_task(task: TaskForm, agent: str, name: str, path: str, known: _Known) -> AgentTask:
    found = known.agents.get(agent)
    if found is None:
        raise InvalidInput(
            f"{WHAT}: {path}.agent: no agent is named {agent!r}; there are {', '.join(known.agents) or 'none'}"
        )
    if task.effect is not None or task.retry is not None:
        raise InvalidInput(
            f"{WHAT}: {path}: an agent's run is found again, never begun twice; leave effect and retry out"
        )
    returns = task.returns if task.returns is not None else found.structure
    parameters = _closed(task.parameters)
    spec = _spec(task, name, effect=ToolEffect.IDEMPOTENT, parameters=parameters, returns=returns)
    return AgentTask(replace(spec, kind="agent", agent=agent), found)


def _function_task(task: TaskForm, function: str, name: str, path: str, known: _Known) -> FunctionTask:
    found = known.functions.get(function)
    if found is None:
        there = ", ".join(known.functions) or "none"
        raise InvalidInput(f"{WHAT}: {path}.function: no function is registered as {function!r}; there are {there}")
    for member in ("parameters", "returns", "save_as"):
        if getattr(task, member) is not None:
            raise InvalidInput(f"{WHAT}: {path}.{member}: a function says this itself, leave it out")
    read = read_function(found, {}, is_method=False, what=f"{WHAT}: {path}.function")
    effect = task.effect or ToolEffect.AT_MOST_ONCE
    spec = _spec(task, name, effect=effect, parameters=read.signature.schema, returns=read.returns)
    described = read_docstring(found).summary if task.description is None else task.description
    return FunctionTask(replace(spec, description=described), read, None)


def _spec(task: TaskForm, name: str, *, effect: str, parameters: JSONObject, returns: JSONObject | None) -> TaskSpec:
    retry = task.retry
    return TaskSpec(
        name=name,
        description=task.description or "",
        parameters=parameters,
        returns=returns,
        effect=str(effect),
        timeout_s=task.timeout_s,
        retry=NO_RETRY if retry is None else RetrySpec(retry.attempts, retry.wait_s, retry.factor, retry.longest_s),
        approval=task.approval or "",
        approval_timeout_s=task.approval_timeout_s,
        save_as=task.save_as or "",
    )


def _closed(parameters: JSONObject | None) -> JSONObject:
    """The schema, closed to members that nobody declared, unless it says something of them."""
    schema = NO_ARGUMENTS if parameters is None else parameters
    return schema if any(word in schema for word in _OPEN) else {**schema, "additionalProperties": False}


def _check_inner_name(inner: str | None, name: str, path: str) -> None:
    if inner is not None and inner != name:
        raise InvalidInput(f"{WHAT}: {path}.name: {inner!r} is not the name that it stands under, {name!r}")
