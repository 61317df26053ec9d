"""A workflow's definition as `GET /api/workflows/{name}` and `POST /initialize` show it. Source: UAIP 0.1."""

from __future__ import annotations

from perdure.protocols.uaip.models import InitializeResponse, StageSchema, TaskSchema, WorkflowSchema
from perdure.uaip.definition import StageSpec, TaskSpec, WorkflowDefinition
from perdure.upp.json_value import JSONObject


def workflow_schema(definition: WorkflowDefinition) -> JSONObject:
    """The body of `GET /api/workflows/{name}`: what the specification asks for, and prerequisites and returns."""
    return WorkflowSchema(
        name=definition.name,
        description=definition.description,
        initial_stage=definition.initial_stage,
        stages={stage.name: _stage(stage) for stage in definition.stages},
    ).to_json()


def initialize_response(definition: WorkflowDefinition, session_id: str) -> JSONObject:
    """The body of `POST /initialize`."""
    return InitializeResponse(
        session_id=session_id,
        workflow=definition.name,
        initial_stage=definition.initial_stage,
        stages=list(definition.stage_names),
    ).to_json()


def _stage(stage: StageSpec) -> StageSchema:
    return StageSchema(
        name=stage.name,
        description=stage.description,
        tasks={task.name: _task(task) for task in stage.tasks},
        transitions=[edge.target for edge in stage.transitions],
        prerequisites=list(stage.prerequisites),
    )


def _task(task: TaskSpec) -> TaskSchema:
    if task.returns is None:
        return TaskSchema(name=task.name, description=task.description, parameters=task.parameters)
    return TaskSchema(name=task.name, description=task.description, parameters=task.parameters, returns=task.returns)
