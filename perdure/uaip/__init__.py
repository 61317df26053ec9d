"""UAIP: workflows of stages, whose tasks can be called in their stage only. The front door of definitions.

Names are imported when they are first used. What happens to an action is in `machine`; the wire is `perdure.protocols.uaip`.

    from perdure.uaip import State, stage, task, to, workflow
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.uaip.document import workflow_from_json
    from perdure.uaip.edge import to
    from perdure.uaip.retry import Retry
    from perdure.uaip.stages import stage
    from perdure.uaip.state import State
    from perdure.uaip.task_context import TaskContext
    from perdure.uaip.tasks import task
    from perdure.uaip.workflows import Workflow, workflow

__all__ = ["Retry", "State", "TaskContext", "Workflow", "stage", "task", "to", "workflow", "workflow_from_json"]

_HOME = {
    "Retry": "perdure.uaip.retry",
    "State": "perdure.uaip.state",
    "TaskContext": "perdure.uaip.task_context",
    "Workflow": "perdure.uaip.workflows",
    "stage": "perdure.uaip.stages",
    "task": "perdure.uaip.tasks",
    "to": "perdure.uaip.edge",
    "workflow": "perdure.uaip.workflows",
    "workflow_from_json": "perdure.uaip.document",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'perdure.uaip' has no attribute {name!r}")
    return getattr(_import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
