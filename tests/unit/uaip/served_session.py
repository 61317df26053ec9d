"""A session as a server would keep it, with rows in memory: the pure parts put together as they are meant to be."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from perdure.protocols.uaip.reply import Reply, refused, settled, unsettled
from perdure.protocols.uaip.request import RequestRefused, read_action, read_target
from perdure.uaip import State, TaskContext, Workflow
from perdure.uaip.action import Action
from perdure.uaip.bound_task import FunctionTask
from perdure.uaip.decision import Held, Known, RunTask, Settling
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.machine import commit, decide
from perdure.uaip.refusal import session_not_found, workflow_not_found
from perdure.uaip.session import StageSession, begin, expire
from perdure.uaip.settled_diff import settled_diff
from perdure.uaip.task_outcome import TaskRun
from perdure.uaip.task_run import run_function
from perdure.upp.json_value import JSONObject
from tests.unit.uaip.stage_store import NOON_MS, SESSION


@dataclass
class ServedSession:
    """One session, its values and the replies to its actions.

    Attributes:
        now_ms: the clock; it moves when a test says so.
        replies: by ordinal.
        waiting: actions that a paused session holds, oldest first, with their ordinals.
    """

    workflow: Workflow
    session: StageSession
    definition: WorkflowDefinition
    values: JSONObject = field(default_factory=dict[str, Any])
    now_ms: int = NOON_MS
    replies: dict[int, Reply] = field(default_factory=dict[int, Reply])
    waiting: list[tuple[int, Action]] = field(default_factory=list[tuple[int, Action]])
    count: int = 0

    @classmethod
    def open(cls, workflow: Workflow) -> ServedSession:
        return cls(workflow, begin(workflow.definition, SESSION, NOON_MS), workflow.definition)

    def execute(self, header: str | None, body: Any) -> Reply:
        """The reply to one request of `POST /execute`."""
        try:
            target = read_target(header, body if isinstance(body, bytes) else json.dumps(body).encode())
            self._find(target.workflow_name, target.session_id)
            action = read_action(target.body)
        except RequestRefused as error:
            return refused(error.refusal)
        self.count += 1
        self.waiting.append((self.count, action))
        self.settle()
        if self.count in self.replies:
            return self.replies[self.count]
        return unsettled(self.definition, self.session, action, str(self.count), "paused")

    def _find(self, workflow: str, session: str) -> None:
        if workflow != self.workflow.name:
            raise RequestRefused(workflow_not_found(workflow))
        self.session = expire(self.definition, self.session, self.now_ms)
        if session != SESSION or self.session.has_ended:
            raise RequestRefused(session_not_found())

    def settle(self) -> None:
        """Do what waits, in order, until one is held."""
        while self.waiting:
            ordinal, action = self.waiting[0]
            head = action.head(ordinal, self.now_ms)
            decision = decide(self.definition, self.session, head)
            if isinstance(decision, Held):
                return
            self.waiting.pop(0)
            if not isinstance(decision, Known):
                self._do(ordinal, action, decision)

    def _do(self, ordinal: int, action: Action, decision: Settling) -> None:
        run = self._run(ordinal, action, decision) if isinstance(decision, RunTask) else None
        diff = settled_diff(self.session, action, decision, run)
        head, outcome = action.head(ordinal, self.now_ms), None if run is None else run.outcome
        self.session = commit(self.definition, self.session, head, decision, outcome, at_ms=self.now_ms)
        self.values = diff.apply(self.values)
        self.replies[ordinal] = settled(self.definition, self.session, action, str(ordinal), decision, run)

    def _run(self, ordinal: int, action: Action, decision: RunTask) -> TaskRun:
        task = self.workflow.task(decision.stage, action.name)
        assert isinstance(task, FunctionTask)
        state = State(self.values, version=self.session.version)
        context = TaskContext(str(ordinal), str(ordinal), 1, session_id=SESSION)
        work = run_function(task, decision.task, action.arguments, state, context)
        with asyncio.Runner() as runner:
            return runner.run(work)
