"""Running a sub-agent in this process, as a tool call of its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.uap import lineage
from perdure.uap.active_session import current_run
from perdure.uap.child_options import child_options
from perdure.uap.options import RunOptions
from perdure.upp.messages import Message
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.agent import Agent


async def run_sub_agent(agent: Agent, name: str, task: str | Message, call_id: str) -> Turn:
    """The turn of a sub-agent.

    Within a session's run it runs in a session of its own, of which a document stays in that run, whatever becomes of
    it: from there it could be gone on with.

    Args:
        agent: as it was defined.
        name: the tool's.
        task: what it is told.
        call_id: of the tool call.

    Raises:
        LimitExceeded: the parent has nothing left to spend, or no time.
        UPPError: INVALID_REQUEST if it has no model to inherit, or is nested too deeply.
        Exception: what `Agent.run` raises.
    """
    from perdure.uap.session import Session  # not above: a session has an agent, and that has tools such as this one

    parent, run = lineage.current(), current_run()
    options = RunOptions() if parent is None else _allowed(parent)
    with lineage.called_as(name, call_id):
        if run is None:
            return await agent.run(task, options=options)
        session = Session(agent)
        try:
            return await session.run(task, options=options)
        finally:
            run.sub_agent_states[call_id] = session.to_json()


def _allowed(parent: lineage.Lineage) -> RunOptions:
    return child_options(
        parent.options, parent.spent(), parent.tokens(), seconds=parent.seconds_left(), session=parent.allowance
    )
