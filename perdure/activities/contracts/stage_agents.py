"""Tasks that are an agent's run: what is asked of them between the steps of their stage session."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.activities.contracts.stages import StageStanding


@dataclass(frozen=True, slots=True)
class AskAgentInput:
    """Ask how the agent's run of an action stands: begin it, or settle the action with what it came to.

    Attributes:
        ordinal: the action's place in the stage session's inbox.
        child: the agent's session.
        opened: it was opened before, as far as this execution knows; one that is gone then is not opened again.
    """

    tenant: str
    session: str
    ordinal: int
    child: str
    opened: bool = False


@dataclass(frozen=True, slots=True)
class AskAgentResult:
    """How it stands.

    Attributes:
        kind: "run" (its session's execution is to be open until it has ended); "stop" (the action was settled meanwhile,
            and the run has not ended: it is to be cancelled); "settled"; "gone" (there is no such stage session);
            or what `begin_task` says of an action whose task may not run.
        standing: of the stage session; None while the run goes on.
        status: of the reply, once the action is settled.
        agent: whose run it is.
        sandboxed: its session runs in the sandboxed twin.
        task_queue: of the workers that serve it.
    """

    kind: str
    standing: StageStanding | None = None
    status: str = ""
    agent: str = ""
    sandboxed: bool = False
    task_queue: str = ""
