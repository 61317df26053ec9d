"""`call_tool`: one tool call, run no more often than its effect class allows. A tool's error is a result for the model."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.agent_stages import AgentStages
from perdure.activities.approvals import Approved, arguments_of, decide, question_for_client, question_of
from perdure.activities.call_results import CallResults, told
from perdure.activities.child_calls import ChildResults
from perdure.activities.contracts import CallToolInput, CallToolResult
from perdure.activities.kept_queries import keeping_queries
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.remote_calls import RemoteCalls
from perdure.activities.services import Services
from perdure.errors import DamagedSession
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.store.tool_calls import CallState, Question, open_wait
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.ids import tool_call_key
from perdure.uap.stage_call import StageCall
from perdure.upp.json_value import dumps, sha256_hex
from perdure.upp.redaction import known_secrets
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import ApprovalNeeded, ReadyCall, prepare_call, run_prepared
from perdure.upp.tools import CLIENT, HUMAN, REMOTE, Tool, ToolContext, ToolEffect

MARKED = (ToolEffect.ONCE, ToolEffect.AT_MOST_ONCE)
"""The effects of which a row must say that the tool runs, where nobody counts the attempts of other processes."""

CANCELLED = "The run was cancelled while this tool was running; whether it had its effect is not known."
NOT_BEGUN = "The run was cancelled before this tool was run."


class CallTool:
    """The tool calls of one worker."""

    def __init__(self, services: Services) -> None:
        """Call the tools of the agents in `services`."""
        self._services = services
        self._results = CallResults(services)
        self._stages = AgentStages(services)
        self._children = ChildResults(services, self._results)
        self._remotes = RemoteCalls(services, self._results)

    @activity.defn(name=contracts.CALL_TOOL)
    async def call_tool(self, call: CallToolInput) -> CallToolResult:
        """Run one tool call, or find what came of it.

        Raises:
            DamagedSession: the stored arguments are not those that the workflow saw.
            OutcomeUnknown: somebody stopped the run, since nobody knows what came of the call.
        """
        async with beating(), keeping_queries(self._services, call.tenant, call.session):
            crash_point("call_tool.begun")
            result = await self._call(writer_of(call.tenant, call.session, call.run), call)
            crash_point("call_tool.reporting")
            return result

    async def ahead(self, writer: Writer, call: CallToolInput, *, marked: bool) -> CallToolResult:
        """Run a call within the activity that bought its answer. Whoever takes over calls it as a local activity.

        Args:
            writer: the run.
            call: which.
            marked: its row says that it is running, since its answer was stored.
        """
        async with keeping_queries(self._services, call.tenant, call.session):
            return await self._services.around_tool(call, lambda: self._call(writer, call, ahead=True, marked=marked))

    async def _call(
        self, writer: Writer, call: CallToolInput, *, ahead: bool = False, marked: bool = False
    ) -> CallToolResult:
        if not self._services.app.serves(call.agent):
            return CallToolResult(kind="elsewhere")
        tool_call = await self._read_call(writer, call)
        stage = await self._stages.call(writer, call, tool_call.tool_name)
        if call.child:
            return await self._children.take(writer, call, tool_call, stage)
        agent = self._services.app.agent(call.agent)
        tool = _as_frozen(agent.tool(tool_call.tool_name) if stage is None else stage.tool, call)
        alone = activity.info().is_local and not ahead
        claim = not ahead and call.effect in _claimed(alone) and (tool is None or tool.approval is None)
        approved: Approved | None = None
        again = activity.info().attempt > 1 or call.adopted or alone
        if again or claim or (call.effect in (ToolEffect.ONCE, CLIENT, REMOTE) and not marked):
            known = await self._results.look_up(writer, call, claim=claim)
            answered = (
                await self._remotes.answer(writer, call, tool_call, known, agent) if call.effect == REMOTE else None
            )
            if answered is not None:
                return answered
            settled = await self._settle(writer, call, tool_call, known, _Given(agent, tool, stage=stage))
            if isinstance(settled, CallToolResult):
                return settled
            approved = settled
            claim = claim or known.state == "running"  # somebody said that it was not run after all
        given = _Given(agent, tool, approved, claimed=claim or marked, stage=stage)
        return await self._run(writer, call, tool_call, given)

    async def _settle(
        self, writer: Writer, call: CallToolInput, tool_call: ToolCall, known: CallState, given: _Given
    ) -> CallToolResult | Approved | None:
        """The result of a call that is not to be run, by what is known of it; else what was approved of it, if anything."""
        if known.state in ("gone", "late"):
            return CallToolResult(kind=known.state)
        if known.state == "done":
            return await self._results.stored(writer, call, known)
        may_have_run = activity.info().attempt > 1 or call.adopted or known.state == "running"
        decided = decide(call, tool_call, known, may_have_run=may_have_run)
        if decided is None or isinstance(decided, Approved):
            return decided
        if not isinstance(decided, CallToolResult):
            made = told(tool_call, decided.result, is_error=decided.is_error, approved=decided.approved)
            made = made if given.stage is None else await given.stage.finish(made)
            return await self._results.save(writer, call, tool_call, made)
        tool = given.tool
        if call.effect == CLIENT and known.open is None and tool is not None and tool.timeout is not None:
            return await self._park(writer, call, question_for_client(call, tool_call, tool.timeout))
        return decided

    async def _run(self, writer: Writer, call: CallToolInput, tool_call: ToolCall, given: _Given) -> CallToolResult:
        begun = False
        try:
            ready = await self._prepare(writer, tool_call, given)
            if given.late_claim(call) and isinstance(ready, ReadyCall):
                known = await self._results.look_up(writer, call, claim=True)
                if known.state != "pending":
                    settled = await self._settle(writer, call, tool_call, known, given)
                    return settled if isinstance(settled, CallToolResult) else CallToolResult(kind="elsewhere")
            if call.effect == REMOTE and isinstance(ready, ReadyCall):
                return await self._remotes.ask(writer, call, ready, given.agent.tool(tool_call.tool_name))
            begun = True
            crash_point("call_tool.running")
            execution = await self._carry_out(call, ready, given.agent)
            crash_point("call_tool.ran")
            execution = execution if given.stage is None else await given.stage.finish(execution)
        except ApprovalNeeded as needed:
            assert given.tool is not None, "a tool asks"
            asked = known_secrets.json(needed.arguments)
            return await self._park(writer, call, question_of(call, given.tool, tool_call, asked))
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
            execution = told(tool_call, CANCELLED if begun else NOT_BEGUN)
        return await self._results.save(writer, call, tool_call, execution)

    async def _prepare(self, writer: Writer, tool_call: ToolCall, given: _Given) -> ReadyCall | ToolExecution:
        """The call with the arguments that count. What a person has approved is asked of nobody again."""
        tool, approved = given.tool, given.approved
        if approved is None or tool is None or tool.run is None:
            return await prepare_call(tool, tool_call, given.agent.tool_strategy, can_wait=True)
        arguments = await arguments_of(self._services, writer, approved, tool_call)
        return ReadyCall(tool, dataclasses.replace(tool_call, arguments=arguments), approved=True)

    async def _carry_out(self, call: CallToolInput, ready: ReadyCall | ToolExecution, agent: Agent) -> ToolExecution:
        if isinstance(ready, ToolExecution):
            return ready
        context = ToolContext(
            call_id=ready.call.tool_call_id,
            idempotency_key=tool_call_key(call.message, call.index),
            attempt=activity.info().attempt,
            secrets=self._services.app.secrets,
            contents=self._services.contents(call.tenant),
        )
        return await run_prepared(ready, context, agent.tool_strategy)

    async def _park(self, writer: Writer, call: CallToolInput, question: Question) -> CallToolResult:
        """Open the wait, and have the run wait for its answer."""
        crash_point("approval.asking")
        opened = await keep_trying(
            lambda: open_wait(self._services.database, writer, call.message, call.index, question),
            deadline=STORE_PATIENCE,
        )
        crash_point("approval.asked")
        if opened.state != "open":
            return CallToolResult(kind=opened.state)
        return CallToolResult(kind="parked", wait=opened.open, expires_s=opened.expires_s)

    async def _read_call(self, writer: Writer, call: CallToolInput) -> ToolCall:
        services = self._services
        answer = await keep_trying(lambda: services.answer(writer.key, call.message), deadline=STORE_PATIENCE)
        found = (answer.tool_calls or [])[call.index]
        if sha256_hex(dumps(found.arguments)) != call.args_sha256:
            raise DamagedSession(f"the arguments of call {call.index} of message {call.message} have changed")
        return found


def _claimed(local: bool) -> tuple[ToolEffect, ...]:
    """The effects whose calls mark themselves before they run."""
    return MARKED if local else (ToolEffect.ONCE,)


@dataclasses.dataclass(frozen=True, slots=True)
class _Given:
    """What a call is run with.

    Attributes:
        agent: whose tool it is.
        tool: None if there is none of that name.
        approved: what a person has approved, if anybody was asked.
        claimed: the call's row says that it is running, if its effect needs that.
        stage: of a stage's tool.
    """

    agent: Agent
    tool: Tool | None
    approved: Approved | None = None
    claimed: bool = False
    stage: StageCall | None = None

    def late_claim(self, call: CallToolInput) -> bool:
        """Whether the row is to be marked only now: until its approval the call has not begun."""
        return call.effect == ToolEffect.ONCE and not self.claimed


def _as_frozen(tool: Tool | None, call: CallToolInput) -> Tool | None:
    """The tool with the timeout of the run's spec where it has none, and with its approval, whatever a deploy has made of it."""
    if tool is None or tool.run is None:
        return tool
    if tool.timeout is None and call.effect != REMOTE:
        tool = dataclasses.replace(tool, timeout=timedelta(seconds=call.timeout_s))
    if call.approval == HUMAN and tool.approval is None:
        tool = dataclasses.replace(tool, approval=HUMAN)
    return tool
