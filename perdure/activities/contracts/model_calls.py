"""Model calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.activities.contracts.tool_calls import CallToolResult
from perdure.uap.stage_place import StagePlace


@dataclass(frozen=True, slots=True)
class AskInput:
    """How a model call differs from a plain one; see `perdure.uap.strategy.Ask`.

    `prompt_id` and `at` are what the prompt's message is stored with: the workflow's time, ISO 8601. `view` is the
    conversation to send in place of the thread's, see `perdure.activities.conversation`; None sends the thread's.
    `quiet`: the run's stream is not told of the answer as it comes. `stages`: sha256 of the workflow that the agent walks.
    """

    scaffold: str = ""
    prompt: str = ""
    prompt_id: str = ""
    at: str = ""
    observe: str = ""
    tools: bool = True
    structure: dict[str, Any] | None = None
    view: list[dict[str, Any]] | None = None
    quiet: bool = False
    stages: str = ""


@dataclass(frozen=True, slots=True)
class ToolAhead:
    """A short tool whose calls may be carried out with the answer that asks for them, as the run froze it."""

    effect: str = "at_most_once"
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class GenerateInput:
    """One model call. The conversation is read by position; nothing of it is in here.

    `position` is where the answer goes; its prompt, if there is one, goes directly before it. `ahead`: the tools, by name,
    whose calls are carried out at once if the answer asks for no other.
    """

    tenant: str
    session: str
    run: str
    agent: str
    node: str
    start: int
    position: int
    epoch: int
    step: int
    message: str
    results: str
    adopted: bool = False
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ask: AskInput | None = None
    ahead: dict[str, ToolAhead] = field(default_factory=dict[str, ToolAhead])


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """The answer as a workflow may hold it.

    Attributes:
        kind: "answer"; "cancelled" (`message` is what there was of it, or None); "late" (the run had ended); "gone".
        message: MessageJSON, long parts cut.
        sha256: of the stored body.
        usage: TokenUsage JSON of this call.
        stop: the stop reason.
        args: sha256 of each tool call's arguments, in order.
        stored: it had been stored before, by another execution or attempt.
        prompt_sha256: of the prompt's stored body, if there is one.
        data: what a structured answer holds.
        stage: where the stage session of an agent that walks a workflow was when it was asked.
        called: the results of its tool calls, in order, if they were carried out at once; None of one that came to nothing.
    """

    kind: str = "answer"
    message: dict[str, Any] | None = None
    sha256: str = ""
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    stop: str = ""
    args: list[str] = field(default_factory=list[str])
    stored: bool = False
    prompt_sha256: str = ""
    data: Any = None
    stage: StagePlace | None = None
    called: list[CallToolResult | None] = field(default_factory=list["CallToolResult | None"])
