"""`ask_agent`: the agent's run that is a task. Begins it, and settles the task's action with what it came to.

The run is an input of a session of its own, whose id derives from the action, under the action's id as its key: it is begun
once, whoever asks and however often. It is waited for by the workflow alone.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.border import from_description
from perdure.activities.contracts import AskAgentInput, AskAgentResult
from perdure.activities.lifeline import beating
from perdure.activities.redaction import clean_message
from perdure.activities.services import Services
from perdure.activities.stage_standing import standing_of
from perdure.errors import InvalidInput, UnknownRun, UserError
from perdure.store import inputs
from perdure.store.accepted import Accepted, find_accepted
from perdure.store.agents import AgentRow, find_agent
from perdure.store.completed_turns import completed_turn
from perdure.store.runs import TERMINAL, RunRow, find_run
from perdure.store.stages.rows import action_id
from perdure.store.stages.running import BegunTask, begin_task, settle_task
from perdure.store.submission import Submission
from perdure.store.withdrawing import withdraw
from perdure.testing.crash import crash_point
from perdure.uaip.arguments import argument_problems, misfit, with_defaults
from perdure.uaip.bound_task import AgentTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.state import State
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uaip.task_run import finish
from perdure.uap.agent_tool import result_of
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import UserMessage
from perdure.upp.tool_loop import error_text

CANCELLED = "The agent's run was cancelled before it had an answer."
DELETED = "The agent's session was deleted before its run had an answer."


class AskAgent:
    """The agents' runs that are tasks, asked from one worker."""

    def __init__(self, services: Services) -> None:
        """Ask the agents in `services`."""
        self._services = services

    @activity.defn(name=contracts.ASK_AGENT)
    async def ask_agent(self, call: AskAgentInput) -> AskAgentResult:
        """Begin the run of an action if it has not begun, and settle the action if the run has ended.

        Raises:
            UnknownAgent: this worker does not serve the agent; another one may.
            DamagedSession: a body is missing or does not have its hash.
        """
        async with beating():
            return await self._ask(call)

    async def _ask(self, call: AskAgentInput) -> AskAgentResult:
        services, key = self._services, SessionKey(call.tenant, call.session)
        begun = await begin_task(services.database, key, call.ordinal, try_id=call.child)
        if begun.news:
            services.announcer.changed(key)
        if begun.kind == "begun" and begun.task is not None:
            return await self._begun(call, begun, begun.task)
        if begun.kind in ("settled", "gone"):
            return await self._unwanted(call, begun)
        return AskAgentResult(begun.kind, standing_of(begun.session))

    async def _begun(self, call: AskAgentInput, begun: BegunTask, task: TaskSpec) -> AskAgentResult:
        accepted = await self._find(call) if call.opened else None
        if accepted is None and call.opened:
            return await self._settle(call, TaskRun(error=TaskError("Cancelled", DELETED)))
        if accepted is None:
            accepted = await self._open(call, begun, task)
        if isinstance(accepted, TaskRun):
            return await self._settle(call, accepted)
        if accepted.status not in TERMINAL:
            return _run(task, await find_agent(self._services.database, call.tenant, task.agent))
        crash_point("ask_agent.ended")
        return await self._settle(call, await self._outcome(accepted, begun, task))

    async def _open(self, call: AskAgentInput, begun: BegunTask, task: TaskSpec) -> Accepted | TaskRun:
        """Hand the agent its input, once; or say why it cannot be."""
        problems = argument_problems(task.parameters, begun.arguments)
        if problems:
            return TaskRun(refusal=misfit(task.name, problems))
        bound = AgentTask(task, self._services.app.agent(task.agent))
        agent = await find_agent(self._services.database, call.tenant, task.agent)
        try:
            told = bound.input(with_defaults(task.parameters, begun.arguments))
            crash_point("ask_agent.storing")
            accepted = await inputs.submit(self._services.database, _submission(call, task, agent, told))
        except UserError as error:
            return TaskRun(error=TaskError(type(error).__name__, error_text(error)))
        crash_point("ask_agent.stored")
        self._services.announcer.changed(accepted.key)
        return accepted

    async def _outcome(self, accepted: Accepted, begun: BegunTask, task: TaskSpec) -> TaskRun:
        """What came of a run that has ended."""
        try:
            row = await find_run(self._services.database, accepted.key.tenant, accepted.run)
        except UnknownRun:  # deleted a moment ago
            return TaskRun(error=TaskError("Cancelled", DELETED))
        if row.status == "cancelled":
            return TaskRun(error=TaskError("Cancelled", CANCELLED))
        if row.status == "failed":
            return TaskRun(error=_error(row))
        agent = self._services.app.agent(task.agent)
        value = result_of(agent, await completed_turn(self._services.database, row))
        assert begun.session is not None, "a task that has begun has its session"
        try:
            return finish(task, value, State(begun.values, version=begun.session.version))
        except (InvalidInput, TypeError) as error:
            return TaskRun(error=TaskError(type(error).__name__, error_text(error)))

    async def _unwanted(self, call: AskAgentInput, begun: BegunTask) -> AskAgentResult:
        """The action is settled, or gone with its session: a run that has not ended is to be cancelled."""
        standing = standing_of(begun.session)
        ended = AskAgentResult(begun.kind, standing, "" if begun.row is None else begun.row.status)
        accepted = await self._find(call)
        if accepted is None or accepted.status in TERMINAL:
            return ended
        if await withdraw(self._services.database, accepted.key, accepted.run):
            self._services.announcer.changed(accepted.key)
            return ended
        return AskAgentResult("stop", standing)

    async def _find(self, call: AskAgentInput) -> Accepted | None:
        """The agent's input, or None if it was not handed in, or was deleted with its session."""
        child = SessionKey(call.tenant, call.child)
        return await find_accepted(self._services.database, child, action_id(call.session, call.ordinal))

    async def _settle(self, call: AskAgentInput, run: TaskRun) -> AskAgentResult:
        key = SessionKey(call.tenant, call.session)
        crash_point("ask_agent.settling")
        settled = await settle_task(self._services.database, key, call.ordinal, run)
        crash_point("ask_agent.settled")
        if settled.news:
            self._services.announcer.changed(key)
        if settled.session is None or settled.row is None:
            return AskAgentResult("gone")
        return AskAgentResult("settled", standing_of(settled.session), settled.row.status)


def _submission(call: AskAgentInput, task: TaskSpec, agent: AgentRow, told: str) -> Submission:
    action = action_id(call.session, call.ordinal)
    return Submission(
        tenant=call.tenant,
        agent=task.agent,
        agent_id=agent.agent_id,
        message=clean_message(UserMessage(told)),
        key=action,
        session=call.child,
        create=True,
        options=RunOptions(max_duration=None if task.timeout_s is None else timedelta(seconds=task.timeout_s)),
        metadata={"stage_session": call.session, "action": action},
        stage=(call.session, call.ordinal),
    )


def _run(task: TaskSpec, agent: AgentRow) -> AskAgentResult:
    sandboxed = agent.workflow_type == contracts.SANDBOXED_SESSION
    return AskAgentResult("run", agent=task.agent, sandboxed=sandboxed, task_queue=agent.task_queue)


def _error(row: RunRow) -> TaskError:
    error = from_description(row.error or {})
    return TaskError(type(error).__name__, error_text(error))
