"""`take_action`: takes a stage session's next action, and settles it if it needs no task. A local activity.

A task that a person must approve is given out once that is done; until then the workflow is told that it waits.
"""

from __future__ import annotations

from dataclasses import replace

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.approvals import EXPIRED, REJECTED
from perdure.activities.contracts import StageTask, TakeActionInput, TakeActionResult
from perdure.activities.services import Services
from perdure.activities.stage_standing import standing_of
from perdure.store.stages.actions import find_action
from perdure.store.stages.clock import store_time
from perdure.store.stages.rows import ActionWait
from perdure.store.stages.running import ask_wait, settle_task
from perdure.store.stages.taking import TakenAction, take_action
from perdure.testing.crash import crash_point
from perdure.uaip.arguments import argument_problems, misfit
from perdure.uaip.definition import TaskSpec
from perdure.uaip.refusal import Refusal
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uap.session_key import SessionKey
from perdure.uap.spec import Limits
from perdure.upp.tools import HUMAN

DENIED = "Denied"
_WAITING = "waiting"


class TakeAction:
    """The actions that one worker takes."""

    def __init__(self, services: Services) -> None:
        """Take actions from the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.TAKE_ACTION)
    async def take_action(self, call: TakeActionInput) -> TakeActionResult:
        """Take the next action in one transaction.

        Raises:
            DamagedSession: what the session is pinned to is not stored, or its rows contradict each other.
        """
        key = SessionKey(call.tenant, call.session)
        crash_point("take_action.taking")
        taken = await take_action(self._services.database, key)
        crash_point("take_action.taken")
        if taken.news:
            self._services.announcer.changed(key)
        result = _result(taken, self._services)
        if taken.task is None:
            return result
        return await self._asked(key, taken, taken.task, result)

    async def _asked(
        self, key: SessionKey, taken: TakenAction, task: TaskSpec, result: TakeActionResult
    ) -> TakeActionResult:
        """The task, unless a person is asked about it: then that it waits, or that it was denied."""
        refusal = await self._misfit(key, taken, task)
        if refusal is not None:
            return await self._settle(key, taken, TaskRun(refusal=refusal), result)
        wait = await self._wait(key, taken, task)
        if wait is None:
            return result
        if wait.answer is None:
            left = None if wait.expires_at is None else await self._seconds_to(wait)
            if left is None or left > 0:
                return replace(result, kind=_WAITING, wait=wait.kind, expires_s=left)
        if wait.kind == contracts.OUTCOME or (wait.answer is not None and wait.answer.get("approved") is True):
            return result
        message = EXPIRED if wait.answer is None else f"{REJECTED} {wait.reason}".rstrip()
        return await self._settle(key, taken, TaskRun(error=TaskError(DENIED, message)), result)

    async def _misfit(self, key: SessionKey, taken: TakenAction, task: TaskSpec) -> Refusal | None:
        """Why the task would not be run with its arguments, so that no person is asked about such a call; else None."""
        if task.approval != HUMAN or taken.state == _WAITING:
            return None
        row = await find_action(self._services.database, key, taken.action_id)
        problems = [] if row is None else argument_problems(task.parameters, row.action.arguments)
        return misfit(task.name, problems) if problems else None

    async def _wait(self, key: SessionKey, taken: TakenAction, task: TaskSpec) -> ActionWait | None:
        """What a person was or is now asked about the task; None if nothing is."""
        database = self._services.database
        if taken.state == _WAITING:
            row = await find_action(database, key, taken.action_id)
            return None if row is None else row.wait
        if task.approval != HUMAN:
            return None
        wait = await ask_wait(database, key, taken.ordinal, contracts.APPROVAL, timeout_s=task.approval_timeout_s)
        self._services.announcer.changed(key)
        return wait

    async def _seconds_to(self, wait: ActionWait) -> float:
        assert wait.expires_at is not None, "asked for one that expires"
        return (wait.expires_at - await store_time(self._services.database)).total_seconds()

    async def _settle(
        self, key: SessionKey, taken: TakenAction, run: TaskRun, result: TakeActionResult
    ) -> TakeActionResult:
        settled = await settle_task(self._services.database, key, taken.ordinal, run)
        self._services.announcer.changed(key)
        if settled.row is None or settled.row.reply is None:
            return TakeActionResult("gone")
        return replace(
            result,
            kind="settled",
            standing=standing_of(settled.session),
            status=settled.row.status,
            http=settled.row.reply.status,
            task=None,
        )


def _result(taken: TakenAction, services: Services) -> TakeActionResult:
    limits: Limits = services.limits
    return TakeActionResult(
        kind=taken.kind,
        standing=standing_of(taken.session),
        ordinal=taken.ordinal,
        action_id=taken.action_id,
        action=taken.action,
        name=taken.name,
        from_stage=taken.from_stage,
        to_stage=taken.to_stage,
        status=taken.status,
        http=taken.http or 200,
        task=None if taken.task is None else _task(taken.task),
        indexed=services.indexed,
        leave_events=limits.continue_as_new_events,
        leave_bytes=limits.continue_as_new_bytes,
    )


def _task(task: TaskSpec) -> StageTask:
    return StageTask(
        kind=task.kind,
        effect=task.effect,
        timeout_s=task.timeout_s,
        attempts=task.retry.attempts,
        waits_s=task.retry.waits_s,
        agent=task.agent,
    )
