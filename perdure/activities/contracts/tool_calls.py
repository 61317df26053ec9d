"""Tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CallToolInput:
    """One tool call. Its arguments are read from the stored message and must have this hash.

    `child` is the session of the sub-agent that was called; its run's outcome is the result.
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
        wait: "outcome" or "client_tool".
        usage_by_agent: of a sub-agent: TokenUsage JSON of it and of its own, by agent path.
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
