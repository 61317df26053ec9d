"""Stage sessions: what their execution is given and carries, and what it asks its activities for.

An action is decided, and settled if it needs no task, inside the store. So a definition and the values of the shared state
never come here: history holds a record of each action, of the same size however large they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StageControl:
    """A pause, resume or terminate as it was signalled. `id` is applied once; it is made where none was given."""

    kind: str
    id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StageCarried:
    """What a stage session takes along into its next execution.

    Attributes:
        controls: noted and not yet applied, oldest first.
        seen: ids of controls that were noted, oldest first, bounded.
        unreadable: how many signals could not be read.
        stage: what the search attribute says; "" for nothing.
    """

    controls: list[StageControl] = field(default_factory=list[StageControl])
    seen: list[str] = field(default_factory=list[str])
    unreadable: int = 0
    stage: str = ""


@dataclass(frozen=True, slots=True)
class StageInput:
    """Input of the stage workflow."""

    tenant: str
    session: str
    carried: StageCarried | None = None


@dataclass(frozen=True, slots=True)
class StageStanding:
    """Where a session stands, as `StageSession` has it, without what depends on how large its state is.

    Attributes:
        workflow: its workflow's name.
        definition: sha256 of the definition that it is pinned to.
        stage: where it is.
        status: a SessionStatus.
        version: how often its state has changed.
        taken: ordinal of its last settled action.
    """

    workflow: str
    definition: str
    stage: str
    status: str = "open"
    version: int = 0
    taken: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether it takes no action any more."""
        return self.status in ("terminated", "expired")


@dataclass(frozen=True, slots=True)
class StageTask:
    """A task that is to be run, as far as the workflow needs it.

    Attributes:
        kind: "function", "agent" or "http".
        effect: its effect class.
        timeout_s: seconds that one try may take; None for no limit of its own.
        attempts: tries in all.
        waits_s: seconds between them, all together.
        agent: of kind "agent": its name.
    """

    kind: str = "function"
    effect: str = "at_most_once"
    timeout_s: float | None = None
    attempts: int = 1
    waits_s: float = 0.0
    agent: str = ""


@dataclass(frozen=True, slots=True)
class TakeActionInput:
    """Ask for the session's next action."""

    tenant: str
    session: str


@dataclass(frozen=True, slots=True)
class TakeActionResult:
    """The next action, and what has become of it.

    Attributes:
        kind: "settled" (it was decided and answered), "task" (it is to be run), "waiting" (a person is asked about it),
            "none", "paused" (nothing is taken), or "gone" (there is no such session).
        standing: of the session after it; None if there is none.
        ordinal: its place in the inbox.
        action_id: its row's id.
        action: an ActionKind.
        name: the task or stage.
        from_stage: where the session was.
        to_stage: where it is.
        status: of the reply, such as "ok" and "error"; "" while there is none.
        http: that reply's status in HTTP.
        task: what is to be run.
        wait: what a person is asked for: "approval" or "outcome".
        expires_s: seconds after which nobody is asked any more; None if it waits for ever.
        indexed: the namespace has the search attribute for stages.
        leave_events: history events of one execution after which the next goes on.
        leave_bytes: likewise bytes.
    """

    kind: str
    standing: StageStanding | None = None
    ordinal: int = 0
    action_id: str = ""
    action: str = ""
    name: str = ""
    from_stage: str = ""
    to_stage: str = ""
    status: str = ""
    http: int = 200
    task: StageTask | None = None
    wait: str = ""
    expires_s: float | None = None
    indexed: bool = True
    leave_events: int = 3000
    leave_bytes: int = 4_000_000


@dataclass(frozen=True, slots=True)
class RunTaskInput:
    """Run the task of one action. Its arguments and the state are read from rows.

    Attributes:
        ordinal: the action's place in the inbox.
        workflow: the session's.
        stage: where it is.
        task: the task's name there.
        kind: "function" or "http".
    """

    tenant: str
    session: str
    ordinal: int
    workflow: str
    stage: str
    task: str
    kind: str = "function"


@dataclass(frozen=True, slots=True)
class RunTaskResult:
    """What came of it.

    Attributes:
        kind: "settled"; "waiting" (nobody knows what came of it, and a person is asked); "cancelled" (its session was
            terminated, and nothing of it is stored); "gone".
        standing: of the session after it.
        status: of the reply.
    """

    kind: str = "settled"
    standing: StageStanding | None = None
    status: str = ""


@dataclass(frozen=True, slots=True)
class FailTaskInput:
    """Settle a task that could not be run for a fault of ours, with the error's description as `describe` has it."""

    tenant: str
    session: str
    ordinal: int
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class ControlStageInput:
    """Apply a control once, whatever it finds."""

    tenant: str
    session: str
    control: StageControl


@dataclass(frozen=True, slots=True)
class ControlStageResult:
    """Where the session stands after it; None if there is none."""

    standing: StageStanding | None = None
