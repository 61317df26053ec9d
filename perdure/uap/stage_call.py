"""One call of a stage's tool: decided by the stage machine, carried out, and kept before anybody is told."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.errors import InvalidInput
from perdure.uaip import words
from perdure.uaip.action import Action, ActionHead, ActionKind
from perdure.uaip.arguments import argument_problems, misfit
from perdure.uaip.bound_task import AgentTask, FunctionTask, HttpTask
from perdure.uaip.decision import Held, Known, Move, Refused, RunTask, Settling, TakeInput, Terminate
from perdure.uaip.definition import TaskSpec
from perdure.uaip.machine import commit, decide
from perdure.uaip.offers import PROVIDE_STATE, action_of
from perdure.uaip.refusal import Reason, Refusal
from perdure.uaip.settled_diff import settled_diff
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uaip.task_run import finish, run_function
from perdure.uap.agent_tool import result_of
from perdure.uap.stage_place import StagePlace, qualified, stage_result
from perdure.uap.stage_snapshot import NO_TIME, Snapshot
from perdure.uap.stage_tools import stage_tool
from perdure.uap.stage_walk import StageWalk, Standing, clean_values
from perdure.uap.sub_agent_run import run_sub_agent
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.tool_call import ToolExecution
from perdure.upp.tool_loop import error_text
from perdure.upp.tools import TOOL_NAME, Tool, ToolContext, ToolEffect

NO_PARAMETERS: JSONObject = {"type": "object"}


class TaskRaised(Exception):
    """A task has raised; the text is what the model is told."""


class StageCall:
    """A call of a stage's tool, on the session as it was before the call.

    Attributes:
        tool: what carries it out; None if the model wrote a name that no tool can have.
    """

    def __init__(self, walk: StageWalk, standing: Standing, values: JSONObject, name: str, session: str) -> None:
        """See `call_stage`."""
        self._walk = walk
        self._standing = standing
        self._values = values
        self._name = name
        self._session = session
        self._after: _After | None = None
        self.tool = self._tool()

    def _tool(self) -> Tool | None:
        spec = self._standing.task(self._name)
        if spec is not None:
            return stage_tool(spec, self._run)
        if TOOL_NAME.fullmatch(self._name) is None:
            return None
        return Tool(self._name, "", NO_PARAMETERS, run=self._run, effect=ToolEffect.NONE, takes_context=True)

    async def _run(self, arguments: JSONObject, context: ToolContext) -> str:
        """What the model is told. Nothing is kept before `finish`.

        Raises:
            InvalidInput: the call is refused; nothing was done.
            TaskRaised: the task raised, and nothing of what it wrote is kept.
        """
        snapshot, definition = self._standing.snapshot, self._standing.definition
        if self._name == PROVIDE_STATE and not snapshot.missing(definition):
            raise InvalidInput(
                f"Error: '{PROVIDE_STATE}' is for what a transition was refused for, and nothing is missing"
            )
        action = action_of(self._name, arguments)
        match decide(definition, snapshot.session, self._head(action)):
            case Refused(refusal) if refusal.reason is Reason.MISSING_PREREQUISITES:
                return self._want(refusal, action.name)
            case Refused(refusal):
                raise InvalidInput(words.refused(refusal))
            case RunTask(stage, task) as decision:
                return self._settle(action, decision, await self._carry_out(stage, task, arguments, context))
            case Known() | Held():
                raise AssertionError("the ordinal is the next one, and an inside agent's session is never paused")
            case decision:
                return self._settle(action, decision)

    async def finish(self, execution: ToolExecution) -> ToolExecution:
        """The record of the call as it stands in the thread: what came of the session is kept, and named beside the words.

        A call that failed leaves the session as it was. A result that does not come from the tool, but from a sub-agent or
        a person, is the task's all the same.
        """
        if execution.is_error:
            return execution
        text = execution.to_result().text
        if self._after is None:
            try:
                text = self._take(execution.result)
            except (InvalidInput, TypeError) as error:
                return replace(execution, result=words.failed(error_text(error)), is_error=True)
            except TaskRaised as error:
                return replace(execution, result=str(error), is_error=True)
        assert self._after is not None, "settled"
        place = await self._walk.keep(self._after.snapshot, *self._after.bodies)
        return replace(execution, result=stage_result(text, place))

    def _take(self, result: JSONValue) -> str:
        """Settle the task with a result that comes from elsewhere."""
        task, stage = self._standing.task(self._name), self._standing.stage
        assert task is not None, "nobody answers for what is no task"
        assert stage is not None, "likewise"
        run = finish(task, result, self._state())
        return self._settle(Action(ActionKind.METHOD_CALL, task.name), RunTask(stage.name, task), run)

    def _want(self, refusal: Refusal, stage: str) -> str:
        """The model is told what is missing, and can provide it from now on."""
        snapshot = replace(self._standing.snapshot, wanted=stage)
        self._after = _After(snapshot, ())
        if not snapshot.missing(self._standing.definition):
            return refusal.detail
        return f"{refusal.detail}\n\nPlease provide the values by calling {PROVIDE_STATE}."

    def _settle(self, action: Action, decision: Settling, run: TaskRun | None = None) -> str:
        if run is not None and run.refusal is not None:
            raise InvalidInput(words.refused(run.refusal))
        if run is not None and run.error is not None:
            raise TaskRaised(words.failed(run.error.message))
        before, outcome = self._standing.snapshot, None if run is None else run.outcome
        definition, head = self._standing.definition, self._head(action)
        session = commit(definition, before.session, head, decision, outcome, at_ms=NO_TIME)
        left = session.has_ended or session.stage != before.session.stage
        after = Snapshot(session, before.values, "" if left else before.wanted)
        diff = settled_diff(before.session, action, decision, run)
        body = None if diff.is_empty else clean_values(diff.apply(self._values))
        self._after = _After(after, ()) if body is None else _After(after.with_values(body), (body,))
        return _words(action, decision, run)

    def _head(self, action: Action) -> ActionHead:
        return action.head(self._standing.snapshot.session.taken + 1, NO_TIME)

    def _state(self) -> State:
        return State(self._values, version=self._standing.snapshot.session.version)

    async def _carry_out(self, stage: str, task: TaskSpec, arguments: JSONObject, context: ToolContext) -> TaskRun:
        bound, state = self._walk.bound(stage, task.name), self._state()
        told = TaskContext(
            context.call_id,
            context.idempotency_key,
            context.attempt,
            context.secrets,
            context.contents,
            session_id=self._session,
        )
        match bound:
            case FunctionTask():
                return await run_function(
                    bound, replace(task, timeout_s=None), arguments, state, told
                )  # timed as a tool
            case HttpTask():
                return await self._walk.http(bound, task, arguments, state, told)
            case AgentTask():
                return await _run_agent(bound, stage, task, arguments, state, told)
            case None:
                lacks = f"task '{task.name}' of stage '{stage}' is not deployed any more"
                return TaskRun(error=TaskError("UnknownTask", lacks))


@dataclass(frozen=True, slots=True)
class _After:
    """The session after a call, and what it names that is new."""

    snapshot: Snapshot
    bodies: tuple[bytes, ...]


async def call_stage(walk: StageWalk, place: StagePlace, name: str, session: str) -> StageCall:
    """A call of a stage's tool.

    Args:
        walk: whose session it is.
        place: where that is before the call.
        name: as the model wrote it.
        session: what a task's context says.
    """
    standing = await walk.standing(place)
    return StageCall(walk, standing, await walk.values(standing.snapshot), name, session)


def check_arguments(task: TaskSpec | Tool, arguments: JSONObject) -> None:
    """Refuse arguments that do not fit a task, also as a tool. Raises InvalidInput with what the model is told."""
    problems = argument_problems(task.parameters, arguments)
    if problems:
        raise InvalidInput(words.refused(misfit(task.name, problems)))


async def _run_agent(
    bound: AgentTask, stage: str, task: TaskSpec, arguments: JSONObject, state: State, context: TaskContext
) -> TaskRun:
    """In this process; a durable run has its sub-agents' results from their own sessions."""
    check_arguments(task, arguments)
    name = qualified(stage, task.name)
    turn = await run_sub_agent(bound.agent, name, bound.input(arguments), context.call_id)
    try:
        return finish(task, result_of(bound.agent, turn), state)
    except (InvalidInput, TypeError) as error:
        return TaskRun(error=TaskError(type(error).__name__, error_text(error)))


def _words(action: Action, decision: Settling, run: TaskRun | None) -> str:
    match decision:
        case Move(source, target, _):
            return words.moved(source, target)
        case TakeInput():
            return words.INPUT_TAKEN
        case Terminate():
            return words.TERMINATED
        case _:
            return words.task_done(action.name, None if run is None else run.result)
