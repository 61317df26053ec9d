"""What a task may know of the call that it serves."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.upp.tools import ToolContext


@dataclass(frozen=True, slots=True)
class TaskContext(ToolContext):
    """Given to a task that has a parameter of this type, or of `ToolContext`.

    `call_id` is the action's id, `idempotency_key` the same for every try of that action.

    Attributes:
        session_id: the stage session.
    """

    session_id: str = ""
