"""`run_task`: a stage's task that is a function or an HTTP call, run no more often than its effect class allows.

What it raises is its result, which the client is told; only a fault of ours fails the activity.
"""

from __future__ import annotations

import asyncio

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.approvals import UNKNOWN
from perdure.activities.contracts import FailTaskInput, RunTaskInput, RunTaskResult
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user
from perdure.activities.services import Services
from perdure.activities.stage_http import NEVER_BETTER, run_http
from perdure.activities.stage_standing import standing_of
from perdure.errors import InvalidInput, UnknownTask
from perdure.store.database import keep_trying
from perdure.store.stages.running import BegunTask, SettledTask, ask_wait, begin_task, settle_task
from perdure.testing.crash import crash_point
from perdure.uaip.bound_task import FunctionTask, HttpTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uaip.task_run import finish, run_function
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.tools import ToolEffect

_NEVER_BETTER = ("StateTooLarge", *NEVER_BETTER)
"""Errors that another try would have too."""


class RunTask:
    """The tasks that one worker runs."""

    def __init__(self, services: Services) -> None:
        """Run the tasks of the workflows in `services`."""
        self._services = services

    @activity.defn(name=contracts.RUN_TASK)
    async def run_task(self, call: RunTaskInput) -> RunTaskResult:
        """Run one task, or find what came of it.

        Raises:
            UnknownTask: this worker has nothing that carries it out.
        """
        async with beating():
            crash_point("run_task.begun")
            try:
                result = await self._run(SessionKey(call.tenant, call.session), call)
            except asyncio.CancelledError:
                if not cancelled_by_user():
                    raise
                return RunTaskResult("cancelled")  # the session has ended, and its action is answered
            crash_point("run_task.reporting")
            return result

    @activity.defn(name=contracts.FAIL_TASK)
    async def fail_task(self, call: FailTaskInput) -> RunTaskResult:
        """Settle a task that could not be run; one that is settled stays as it is."""
        return await self._settle(
            SessionKey(call.tenant, call.session), call.ordinal, TaskRun(error=TaskError(call.type, call.message))
        )

    async def _run(self, key: SessionKey, call: RunTaskInput) -> RunTaskResult:
        task = self._bound(call)
        database, try_id = self._services.database, _try_id()
        begun = await keep_trying(
            lambda: begin_task(database, key, call.ordinal, try_id=try_id), deadline=STORE_PATIENCE
        )
        crash_point("run_task.claimed")
        if begun.news:
            self._services.announcer.changed(key)
        if begun.kind not in ("begun", "done", "unknown") or begun.task is None:
            return RunTaskResult(begun.kind, standing_of(begun.session))
        if begun.kind == "begun":
            run = await self._carry_out(key, task, begun.task, begun)
            crash_point("run_task.ran")
        elif begun.kind == "done":
            run = _told(begun.task, begun)
        elif begun.task.effect == ToolEffect.ONCE:
            await keep_trying(lambda: ask_wait(database, key, call.ordinal, contracts.OUTCOME), deadline=STORE_PATIENCE)
            self._services.announcer.changed(key)
            return RunTaskResult("asked", standing_of(begun.session))
        else:
            run = TaskRun(error=TaskError("OutcomeUnknown", UNKNOWN))
        return await self._settle(key, call.ordinal, run)

    def _bound(self, call: RunTaskInput) -> FunctionTask | HttpTask:
        """What carries the task out here. It is looked for before anything is marked: another worker may have it."""
        found = self._services.app.task(call.workflow, call.stage, call.task)
        wanted = HttpTask if call.kind == "http" else FunctionTask
        if not isinstance(found, wanted):
            raise UnknownTask(
                f"this worker has no {call.kind} for task {call.task!r} of stage {call.stage!r} of workflow "
                f"{call.workflow!r}, which session {call.session} is pinned to: deploy a version that has it, or "
                "terminate the session"
            )
        return found

    async def _carry_out(
        self, key: SessionKey, bound: FunctionTask | HttpTask, pinned: TaskSpec, begun: BegunTask
    ) -> TaskRun:
        """Try the task as often as it says; each try begins with the state as it was."""
        assert begun.session is not None, "it has begun"
        assert begun.row is not None, "likewise"
        tries = 0
        while True:
            state = State(begun.values, version=begun.session.version)
            context = TaskContext(
                call_id=begun.row.id,
                idempotency_key=begun.row.id,
                attempt=begun.attempt + tries,
                secrets=self._services.app.secrets,
                contents=self._services.contents(key.tenant),
                session_id=key.session,
            )
            run = await self._try(bound, pinned, begun.arguments, state, context)
            tries += 1
            if run.error is None or run.error.type in _NEVER_BETTER or tries >= pinned.retry.attempts:
                return run
            await asyncio.sleep(pinned.retry.wait_after(tries))

    async def _try(
        self,
        bound: FunctionTask | HttpTask,
        pinned: TaskSpec,
        arguments: JSONObject,
        state: State,
        context: TaskContext,
    ) -> TaskRun:
        if isinstance(bound, HttpTask):
            return await run_http(bound, pinned, arguments, state, context, secrets=self._services.app.secrets)
        return await run_function(bound, pinned, arguments, state, context)

    async def _settle(self, key: SessionKey, ordinal: int, run: TaskRun) -> RunTaskResult:
        """Store what came of it, however long the store is away: its effect is had."""
        database = self._services.database
        settled = await keep_trying(lambda: settle_task(database, key, ordinal, run), deadline=STORE_PATIENCE)
        crash_point("run_task.stored")
        if settled.news:
            self._services.announcer.changed(key)
        return _result(settled)


def _result(settled: SettledTask) -> RunTaskResult:
    if settled.row is None:
        return RunTaskResult("gone")
    return RunTaskResult("settled", standing_of(settled.session), settled.row.status)


def _told(pinned: TaskSpec, begun: BegunTask) -> TaskRun:
    """What a person said that the task had come to."""
    assert begun.session is not None, "somebody has answered about it"
    answer = None if begun.row is None or begun.row.wait is None else begun.row.wait.answer
    state = State(begun.values, version=begun.session.version)
    try:
        return finish(pinned, None if answer is None else answer.get("result"), state)
    except (TypeError, InvalidInput) as error:  # it does not fit, whoever gives it
        return TaskRun(error=TaskError(type(error).__name__, str(error)))


def _try_id() -> str:
    """Names this try, and only it: another attempt or another execution is another try."""
    info = activity.info()
    return f"{info.workflow_run_id}:{info.activity_id}:{info.attempt}"
