"""`staged(Store)`: an agent that walks a UAIP workflow, and what it has of it. The strategy itself is with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.uaip.bound_task import AgentTask, BoundTask
from perdure.uaip.definition import TaskSpec, WorkflowDefinition
from perdure.uaip.offers import offers, provide_state
from perdure.uaip.workflows import Workflow
from perdure.uap.spec import STAGED
from perdure.uap.stage_place import qualified
from perdure.uap.stage_snapshot import first_snapshot
from perdure.uap.stage_tools import offered_tool, stage_tool
from perdure.uap.whole_number import check_whole_number
from perdure.upp.tools import Tool


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """A workflow as its agent has it. See `perdure.uap.agent_execution.StageTools`.

    Attributes:
        workflow: the workflow.
        tools: the tasks of all stages, by `stage.task`.
        sha256: of the definition.
    """

    workflow: Workflow
    tools: Mapping[str, Tool] = field(init=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        made = {
            qualified(stage.name, task.name): _declared(task, self.workflow.task(stage.name, task.name), stage.name)
            for stage in self.definition.stages
            for task in stage.tasks
        }
        object.__setattr__(self, "tools", made)
        object.__setattr__(self, "sha256", self.definition.sha256)

    @property
    def definition(self) -> WorkflowDefinition:
        """See `StageTools.definition`."""
        return self.workflow.definition

    def task(self, stage: str, name: str) -> BoundTask | None:
        """See `StageTools.task`."""
        return self.workflow.task(stage, name)

    def shown(self) -> list[list[Tool]]:
        """See `StageTools.shown`."""
        begun = first_snapshot(self.definition).session
        return [
            [
                offered_tool(offer)
                for offer in (
                    *offers(self.definition, replace(begun, stage=stage.name)),
                    provide_state(stage.prerequisites),
                )
            ]
            for stage in self.definition.stages
        ]


@dataclass(frozen=True, slots=True, eq=False)
class StagedExecution:
    """What `staged` gives `agent`: the strategy by name and options, and the workflow itself.

    Attributes:
        stages: the workflow as the agent has it.
        max_steps: see `staged`.
    """

    stages: Stages
    max_steps: int

    @property
    def name(self) -> str:
        """The strategy's registered name."""
        return STAGED

    @property
    def options(self) -> dict[str, Any]:
        """What a run freezes: the definition is named by its hash."""
        return {
            "workflow": self.stages.definition.name,
            "definition": self.stages.sha256,
            "max_steps": self.max_steps,
        }


def staged(workflow: Workflow, *, max_steps: int = 50) -> StagedExecution:
    """The strategy by which an agent walks a UAIP workflow: in each step its model has the tasks of the stage where it is.

    Beside them it has `transition_stage` if a way leads on, `terminate_session`, `provide_state` once a transition was
    refused since keys of the state were missing, and the agent's own tools. The stage session belongs to the thread: a
    run goes on where the last one on it left it. It does not expire. Once it has ended, the next run begins a new one.

    Args:
        workflow: made by `@workflow` or `workflow_from_json`. A run stays with the definition that it began with.
        max_steps: model calls of one run; at the limit the turn so far is returned.

    Raises:
        InvalidInput: it is no workflow, the limit cannot be used, or a task that is an agent has an approval or a timeout.
    """
    if not isinstance(cast(object, workflow), Workflow):
        raise InvalidInput(f"staged takes a workflow, made by @workflow; got {workflow!r:.80}")
    check_whole_number("max_steps", max_steps, 1)
    return StagedExecution(Stages(workflow), max_steps)


def _declared(spec: TaskSpec, bound: BoundTask | None, stage: str) -> Tool:
    if not isinstance(bound, AgentTask):
        return stage_tool(spec, _elsewhere)
    if spec.approval or spec.timeout_s is not None:
        raise InvalidInput(
            f"task {spec.name!r} of stage {stage!r} is an agent's, and as a sub-agent of another agent it takes neither "
            "approval nor timeout; give them to the tools that it calls"
        )
    return bound.tool


def _elsewhere(*_: object) -> None:
    raise InvalidInput("a task of a stage is called in its stage alone")
