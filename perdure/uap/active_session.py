"""The session whose run the present code is part of: a tool, a hook, a sub-agent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perdure.uap.allowance import Allowance
from perdure.uap.ids import new_id
from perdure.uap.state import ExecutionState
from perdure.uap.thread_node import ThreadNode
from perdure.upp.json_value import JSONObject
from perdure.upp.usage import TokenUsage

if TYPE_CHECKING:
    from perdure.uap.agent_stream import AgentStreamEvent
    from perdure.uap.session import Session


@dataclass(slots=True, eq=False)
class SessionRun:
    """One run of a session.

    Attributes:
        session: whose run it is.
        node: where the turn will go.
        thread_length: messages of the node's thread that are older than the run.
        id: a UUIDv4.
        state: as after the last step; None before the first has ended.
        sub_agent_states: SessionJSON of the sub-agents that have finished, by tool call id.
        usage_by_agent: what the run's agents have used, by path; there when the run is over, whatever became of it.
        behind: what an event of the run is handed on as to who follows a sub-agent: with the checkpoints behind it.
        allowance: what was left of the session's limits when it began; None if it has none.
        steps: the steps that it took, whatever became of it; there when the run is over.
        outer: the run that this one is part of.
        over: it has ended; tasks that it left behind are no longer part of it.
    """

    session: Session
    node: ThreadNode
    thread_length: int
    id: str = field(default_factory=new_id)
    state: ExecutionState | None = None
    sub_agent_states: dict[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    usage_by_agent: dict[str, TokenUsage] = field(default_factory=dict[str, TokenUsage])
    behind: Callable[[AgentStreamEvent], Sequence[AgentStreamEvent]] | None = None
    allowance: Allowance | None = None
    steps: int = 0
    outer: SessionRun | None = None
    over: bool = False


_innermost: ContextVar[SessionRun | None] = ContextVar("perdure_session_run", default=None)


def current_run() -> SessionRun | None:
    """The innermost run of a session that this code is part of; None outside any."""
    run = _innermost.get()
    while run is not None and run.over:
        run = run.outer
    return run


def is_part_of(session: Session) -> bool:
    """Whether this code is part of a run of that session, perhaps by a sub-agent's."""
    run = current_run()
    while run is not None and (run.over or run.session is not session):
        run = run.outer
    return run is not None


@contextmanager
def in_run(run: SessionRun) -> Generator[None]:
    """Make everything that starts inside a part of the run."""
    run.outer = current_run()
    token = _innermost.set(run)
    try:
        yield
    finally:
        run.over = True
        _innermost.reset(token)
