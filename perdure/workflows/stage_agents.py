"""A task of a stage session that is an agent's run: a child workflow, the session that serves it.

It may take days and wait for people: meanwhile nothing is held but the child. What the run came to is read from its rows,
whoever has executed it.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from temporalio import workflow

from perdure.activities import contracts
from perdure.activities.contracts import (
    AskAgentInput,
    AskAgentResult,
    RunTaskResult,
    SessionInput,
    StageInput,
    TakeActionResult,
)
from perdure.uap.ids import agent_session_id
from perdure.workflows.calls import start_activity
from perdure.workflows.open_child import OpenChild
from perdure.workflows.stage_tasks import TaskInHand

_ASK_TIMEOUT = timedelta(minutes=15)
_FIRST_PAUSE = timedelta(milliseconds=200)
_LONGEST_PAUSE = timedelta(seconds=60)


async def run_agent_task(start: StageInput, taken: TakeActionResult, hand: TaskInHand) -> RunTaskResult:
    """Have an agent's run done, and its action settled with what it came to.

    Args:
        start: of the stage session's execution.
        taken: the action.
        hand: through which the run is cancelled once its stage session is terminated.

    Returns:
        "settled" or "gone"; "elsewhere" if this execution has become long while another one has the run: the next goes on
        asking. No child is open then.
    """
    run = _AgentRun(start, taken)
    hand.runs(run)
    return await run.until_settled()


class _AgentRun:
    """The run of one action. Its ids are derived: whoever takes the action finds the run that there is."""

    def __init__(self, start: StageInput, taken: TakeActionResult) -> None:
        child = agent_session_id(start.session, taken.ordinal)
        self._call = AskAgentInput(start.tenant, start.session, taken.ordinal, child)
        self._taken = taken
        self._child = OpenChild(start.tenant, child)
        self._stopped = False

    def cancel(self) -> None:
        """See `Stoppable`."""
        self._stopped = True
        self._child.cancel()

    async def until_settled(self) -> RunTaskResult:
        asked = await self._ask()
        pause = _FIRST_PAUSE
        while asked.kind in ("run", "stop"):
            await self._run_or_stop(asked)
            asked = await self._ask()
            if asked.kind not in ("run", "stop"):
                break
            # Its execution is another's, or has ended before its run; what is queued or lost is woken by the sweep.
            await workflow.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if self._is_long:
                return RunTaskResult("elsewhere")
        return RunTaskResult(asked.kind, asked.standing, asked.status)

    async def _ask(self) -> AskAgentResult:
        asked = await start_activity(contracts.ASK_AGENT, self._call, AskAgentResult, _ASK_TIMEOUT)
        self._call = dataclasses.replace(self._call, opened=True)
        return asked

    async def _run_or_stop(self, asked: AskAgentResult) -> None:
        """Have the agent's session open until its execution has ended; or, if nobody wants the run any more, end that."""
        start = SessionInput(self._call.tenant, self._call.child, asked.agent)
        if asked.kind == "run" and not self._stopped:
            await self._child.until_ended(start, sandboxed=asked.sandboxed, task_queue=asked.task_queue)
        else:
            self._child = OpenChild(self._call.tenant, self._call.child)  # one is told once
            self._child.cancel()

    @property
    def _is_long(self) -> bool:
        info, taken = workflow.info(), self._taken
        return (
            info.is_continue_as_new_suggested()
            or info.get_current_history_length() >= taken.leave_events
            or info.get_current_history_size() >= taken.leave_bytes
        )
