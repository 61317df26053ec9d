"""What crosses the activity border: frozen plain data, small, by id and hash. No I/O is imported here.

The registered names never change; a new shape is a new name. Fields that hold their default are not written, so a step
costs little history. A field may be added with a default; none is removed or renamed while histories may hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.uap.spec import AgentSpec

SESSION = "perdure.session"
SANDBOXED_SESSION = "perdure.session.sandboxed"
BEGIN_RUN = "perdure.begin_run"
GENERATE = "perdure.generate"
CALL_TOOL = "perdure.call_tool"
CALL_USER = "perdure.call_user"
AROUND = "perdure.around"
READ_HISTORY = "perdure.read_history"
KEEP_TURN = "perdure.keep_turn"
RECORD = "perdure.record"
END_RUN = "perdure.end_run"
ACTIVITIES = (BEGIN_RUN, GENERATE, CALL_TOOL, CALL_USER, AROUND, READ_HISTORY, KEEP_TURN, RECORD, END_RUN)
"""Every name that workflows schedule; a worker that lacks one does not start."""

WAKE = "wake"
PAUSE = "pause"
RESUME = "resume"
CANCEL = "cancel"
ANSWER = "answer"

OUTCOME = "outcome"
CLIENT_TOOL = "client_tool"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands at a step boundary: enough for another execution to go on from.

    Attributes:
        step: the last step that ended.
        position: messages of the thread node so far.
        usage: TokenUsage JSON so far.
        cycles: model calls so far.
        metadata: the state's metadata.
        done: the run needs no further step.
        reasoning: ids of react's reasoning so far, one per step, oldest first.
        plan: PlanStepJSON of plan's steps; None before there is a plan.
        sub_agents: session ids of the sub-agents that the run has finished, by tool call id.
        usage_by_agent: TokenUsage JSON of those sub-agents and of theirs, by agent path.
    """

    step: int
    position: int
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    done: bool = False
    reasoning: list[str] = field(default_factory=list[str])
    plan: list[dict[str, Any]] | None = None
    sub_agents: dict[str, str] = field(default_factory=dict[str, str])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@dataclass(frozen=True, slots=True)
class ParentLink:
    """Whose sub-agent a session is.

    Attributes:
        session: the parent's session.
        run: the parent's run.
        message: row id of the parent's message that holds the tool call, and
        index: the call's place in it; its arguments are the task.
        options: the child's run options as far as its parent decides them, JSON.
    """

    session: str
    run: str
    message: str
    index: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class RunFrame:
    """What stays the same for a whole run.

    Attributes:
        run: its id.
        node: the thread node it works on.
        start: position of its first message.
        epoch: how often the thread has lost messages; part of the name of a cached conversation.
        message: row id of its input.
        message_sha: of that row's body.
        input: the input as MessageJSON, long parts cut.
        spec: its agent, frozen.
        options: the submit's options that a workflow needs.
        adopted: it was begun by another execution or by a workflow task that was lost, so stored results may exist.
        started: when it began, ISO 8601: a rebuild asks.
    """

    run: str
    node: str
    start: int
    epoch: int
    message: str
    message_sha: str
    input: dict[str, Any]
    spec: AgentSpec
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    adopted: bool = False
    started: str = ""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a session takes along into its next execution: ids and counters, never messages.

    Attributes:
        paused: the session's flag.
        seen: ids of controls that were handled, oldest first, bounded.
        answered: waits whose answer was signalled and not yet used.
        frame: the open run, or None.
        progress: where it stands.
        started: tool calls of the step in hand that were started, by index; None if it is not in hand.
        parked: what the open `run.parked` events say.
        pending: records that no activity has written yet.
    """

    paused: bool = False
    seen: list[str] = field(default_factory=list[str])
    answered: list[str] = field(default_factory=list[str])
    frame: RunFrame | None = None
    progress: Progress | None = None
    started: list[int] | None = None
    parked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class SessionInput:
    """Input of the session workflow. `agent` is a name, or a sub-agent's path; `parent` is whose sub-agent's it is."""

    tenant: str
    session: str
    agent: str
    carried: Carried | None = None
    parent: ParentLink | None = None


@dataclass(frozen=True, slots=True)
class BeginRunInput:
    """Ask for the session's next run. `now` is the workflow's time, ISO 8601; `parent` opens a sub-agent's session."""

    tenant: str
    session: str
    agent: str
    now: str
    parent: ParentLink | None = None


@dataclass(frozen=True, slots=True)
class BeginRunResult:
    """The next run, or why there is none.

    Attributes:
        kind: "new", "adopted", "nothing" or "gone".
        paused: the session is paused.
        frame: the run.
        progress: of a run that another execution had: where it stood.
        source: of an adopted run: "history" if the progress comes from that execution's history, "row" if that was
            gone and it comes from the last checkpoint row; None if this execution itself began the run.
        pending: of an adopted run: its last checkpoint's record, if that execution may not have come to write it.
        orphan: a sub-agent's run whose parent's run has ended; it is to be cancelled.
    """

    kind: str
    paused: bool = False
    frame: RunFrame | None = None
    progress: Progress | None = None
    source: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    orphan: bool = False


@dataclass(frozen=True, slots=True)
class AskInput:
    """How a model call differs from a plain one; see `perdure.uap.strategy.Ask`.

    `prompt_id` and `at` are what the prompt's message is stored with: the workflow's time, ISO 8601. `view` is the
    conversation to send in place of the thread's, see `perdure.activities.conversation`; None sends the thread's.
    `quiet`: the run's stream is not told of the answer as it comes.
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


@dataclass(frozen=True, slots=True)
class GenerateInput:
    """One model call. The conversation is read by position; nothing of it is in here.

    `position` is where the answer goes; its prompt, if there is one, goes directly before it.
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


@dataclass(frozen=True, slots=True)
class CallUserInput:
    """One call of a lifecycle hook. What it is given is read from the rows that these name.

    Attributes:
        position: messages of the node so far.
        message: id of the answer of the step, for the hooks that are about it.
        results: id of its tool-result message, likewise.
        scaffold: id of the strategy's own answer of the step.
        step_position: messages of the node before the step.
        progress: the state, as a checkpoint would have it.
        error: what failed, for `on_error`.
        own: what a strategy of the user's own gives the hook, see `perdure.activities.own_hook`.
    """

    tenant: str
    session: str
    run: str
    agent: str
    hook: str
    step: int
    node: str
    start: int
    position: int
    epoch: int
    step_position: int
    message: str = ""
    results: str = ""
    scaffold: str = ""
    progress: Progress = Progress(0, 0)
    error: dict[str, Any] | None = None
    own: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CallUserResult:
    """What a hook left.

    Attributes:
        metadata: the state's metadata.
        stop: what the stop condition said.
        turned: `on_error` returned a turn; its new messages are stored, this many from `position` on.
    """

    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    stop: bool = False
    turned: bool = False
    added: int = 0


@dataclass(frozen=True, slots=True)
class AroundInput:
    """One call of a run's middleware.

    Attributes:
        kind: "enter" calls `before`; "tell" calls `on_event`; "leave" calls `after` or `on_error`.
        event: to tell: "type", "step"; "message", the row that it is about; "usage", the step's.
        progress: what the run has spent: when it is told of an event, up to the last step that ended.
        outcome: the run's status, for "leave": "completed", or "failed" with `error`.
    """

    tenant: str
    session: str
    run: str
    agent: str
    kind: str
    node: str
    start: int
    position: int
    epoch: int
    step: int = 0
    event: dict[str, Any] | None = None
    outcome: str = ""
    error: dict[str, Any] | None = None
    progress: Progress = Progress(0, 0)
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class AroundResult:
    """What middleware left.

    Attributes:
        kind: "done"; "cancelled"; "late" (the run had ended); "gone".
        input: of "enter": the input in place of the caller's, MessageJSON, long parts cut; None if it stayed.
        epoch: of the session afterwards.
        position: of "enter": messages of the node afterwards.
        outcome: of "leave": what the run comes to.
        error: what `before` or `on_event` raised, or what goes on outwards of "leave"; the run fails of it.
    """

    epoch: int = 0
    position: int = 0
    input: dict[str, Any] | None = None
    outcome: str = ""
    error: dict[str, Any] | None = None
    kind: str = "done"


@dataclass(frozen=True, slots=True)
class ReadHistoryInput:
    """Ask for the messages before a run, for a strategy of the user's own."""

    tenant: str
    session: str
    run: str
    agent: str
    node: str
    start: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadHistoryResult:
    """The messages before a run, as MessageJSON, long parts cut, oldest first."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class KeepTurnInput:
    """Make the turn that a strategy of the user's own returned the run's.

    Attributes:
        items: its messages as a view names them, see `perdure.activities.conversation`.
        at: the workflow's time, ISO 8601 with milliseconds.
    """

    tenant: str
    session: str
    run: str
    node: str
    start: int
    step: int
    at: str
    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class KeepTurnResult:
    """`kind`: "kept", "late" or "gone"; `position`: messages of the node afterwards."""

    kind: str = "kept"
    position: int = 0


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


@dataclass(frozen=True, slots=True)
class RecordInput:
    """Records and a note that must not wait.

    `note` names it within the execution by what it is about, never by its place: a workflow task that is lost may be
    redone with signals that had not come before, and then notes come in another order.
    """

    tenant: str
    session: str
    note: str
    run: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paused: bool | None = None
    status: str | None = None
    wait: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecordResult:
    """What became of it, and the records themselves: a local activity's marker holds its result, not its input.

    `wait` is the id of the wait that is open now.
    """

    kind: str
    wait: str | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class EndRunInput:
    """End a run.

    Attributes:
        now: the workflow's time, ISO 8601 with milliseconds.
        open_answer: id, position and step of a model call that gave no answer; what is known of it is kept.
        error: {"type", "message", ...} of a failed run.
        controls: ids of the controls that asked for it.
        usage_by_agent: TokenUsage JSON of sub-agents, by agent path.
    """

    tenant: str
    session: str
    run: str
    status: str
    now: str
    step: int
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    error: dict[str, Any] | None = None
    open_answer: dict[str, Any] | None = None
    controls: list[str] = field(default_factory=list[str])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@dataclass(frozen=True, slots=True)
class EndRunResult:
    """What a rebuild needs of a run's end: of the first end, if the run had ended before."""

    kind: str
    run: str
    status: str
    at: str
    step: int
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    cycles: int = 0
    error: dict[str, Any] | None = None
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage_by_agent: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
