"""Tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.uap.stage_place import StagePlace


@dataclass(frozen=True, slots=True)
class CallToolInput:
    """One tool call. Its arguments are read from the stored message and must have this hash.

    `child` is the session of the sub-agent that was called; its run's outcome is the result. `refused` describes the
    error for which it is not to be begun; it is the result unless that session is there already. `approval` is the tool's
    as the run froze it: "human", "predicate" or "". `stage` is where the stage session is that the call goes to; None of
    a call of the agent's own tools.
    """

    tenant: str
    session: str
    run: str
    agent: str
    step: int
    message: str
    index: int
    args_sha256: str
    effect: str
    timeout_s: float
    adopted: bool = False
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    child: str = ""
    refused: dict[str, Any] | None = None
    approval: str = ""
    stage: StagePlace | None = None


@dataclass(frozen=True, slots=True)
class CallToolResult:
    """A tool's result as a workflow may hold it.

    Attributes:
        kind: "result"; "parked" (somebody must say what came of it: `wait` says what kind of wait); "elsewhere" (this
            worker does not serve the agent, or the sub-agent still runs: nothing was done); "late"; "gone".
        is_error: the tool failed.
        result: the result if it is small, else its preview.
        sha256: of the whole result's JSON.
        size: bytes of that JSON.
        cut: `result` is a preview.
        duration_ms: milliseconds the tool took.
        attempt: the activity's attempt that stored it.
        batch_sha256: of the tool-result message, from the last call of a batch.
        wait: "outcome", "client_tool", "approval" or "remote".
        usage_by_agent: of a sub-agent: TokenUsage JSON of it and of its own, by agent path.
        expires_s: seconds after which that wait answers itself; None if it waits for ever.
        approved: whether a person or a predicate approved the call; None if neither was asked.
        args_sha256: of the arguments that the tool was called with, where they are not the model's.
        arguments: those, cut as `result` is.
        stage: where the stage session is after the call; None if the call changed nothing of it.
    """

    kind: str = "result"
    is_error: bool = False
    result: Any = None
    sha256: str = ""
    size: int = 0
    cut: bool = False
    duration_ms: int = 0
    attempt: int = 1
    batch_sha256: str | None = None
    wait: str | None = None
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    expires_s: float | None = None
    approved: bool | None = None
    args_sha256: str = ""
    arguments: Any = None
    stage: StagePlace | None = None
