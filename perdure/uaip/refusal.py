"""Why a request or an action is refused, with UAIP's words and statuses. Nothing was done then.

Source: UAIP 0.1, Errors, for statuses; the texts are those of the first UAIP server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from perdure.upp.json_value import JSONObject, JSONValue


class Reason(StrEnum):
    """The reasons, as stable words for programs."""

    INVALID_REQUEST = "invalid_request"
    MISSING_SESSION_HEADER = "missing_session_header"
    WORKFLOW_NOT_FOUND = "workflow_not_found"
    SESSION_NOT_FOUND = "session_not_found"
    UNKNOWN_ACTION = "unknown_action"
    TASK_NOT_IN_STAGE = "task_not_in_stage"
    INVALID_TRANSITION = "invalid_transition"
    MISSING_PREREQUISITES = "missing_prerequisites"
    INVALID_ARGUMENTS = "invalid_arguments"
    KEY_NOT_ALLOWED = "key_not_allowed"
    STATE_TOO_LARGE = "state_too_large"
    KEY_CONFLICT = "key_conflict"


STATUSES: dict[Reason, int] = {
    Reason.INVALID_REQUEST: 400,
    Reason.MISSING_SESSION_HEADER: 400,
    Reason.WORKFLOW_NOT_FOUND: 404,
    Reason.SESSION_NOT_FOUND: 404,
    Reason.UNKNOWN_ACTION: 422,
    Reason.TASK_NOT_IN_STAGE: 422,
    Reason.INVALID_TRANSITION: 422,
    Reason.MISSING_PREREQUISITES: 422,
    Reason.INVALID_ARGUMENTS: 422,
    Reason.KEY_NOT_ALLOWED: 422,
    Reason.STATE_TOO_LARGE: 413,
    Reason.KEY_CONFLICT: 409,
}
"""The HTTP status of each reason."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the caller is told.

    Attributes:
        reason: why.
        detail: for people and models.
        more: members beside `detail`, as `allowed` and `missing`.
    """

    reason: Reason
    detail: str
    more: JSONObject = field(default_factory=dict[str, JSONValue])

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUSES[self.reason]


def session_not_found() -> Refusal:
    """There is no such session for this workflow, or it has ended."""
    return Refusal(Reason.SESSION_NOT_FOUND, "Session not found")


def workflow_not_found(name: str) -> Refusal:
    """No workflow of that name is served."""
    return Refusal(Reason.WORKFLOW_NOT_FOUND, f"Workflow not found: {name:.128}")
