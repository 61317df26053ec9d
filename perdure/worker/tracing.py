"""Spans of what a worker does: run, then step, then model calls and tool calls, by the GenAI semantic conventions.

They are made where activities run and never in workflow code, so a replay sends nothing and both kinds of workflow are
alike. A call's span goes out when the call ends; a run's and its steps' when the run ends, under ids that follow from the
run, since no process lives as long as a run may. No span holds content: no message, argument, result or error text.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from opentelemetry.trace import Span, SpanKind, get_current_span, set_span_in_context, use_span
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.activities.contracts import (
    CallToolInput,
    CallToolResult,
    EndRunInput,
    EndRunResult,
    GenerateInput,
    RunTaskInput,
)
from perdure.activities.services import Services
from perdure.runtime.telemetry import Telemetry, named
from perdure.store.database import is_away
from perdure.uap.session_key import SessionKey
from perdure.worker.ended_run import EndedRun, read_ended_run, was_open
from perdure.worker.run_traces import RunTrace, RunTraces
from perdure.worker.span_ends import failed, finish, usage_of

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PROVIDERS = {"google": "gcp.gemini"}
"""Providers whose name in the conventions is not ours."""


class TracingInterceptor(Interceptor):
    """Makes the spans of every activity that has some."""

    def __init__(self, telemetry: Telemetry, services: Services) -> None:
        """Send by `telemetry`; what a span says of agents and tools comes from `services`."""
        self._spans = _Spans(telemetry, services)
        services.around_tool = self._spans.around_tool

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See base class."""
        return _Traced(next, self._spans)


class _Traced(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, spans: _Spans) -> None:
        super().__init__(next)
        self._spans = spans

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        call: object = input.args[0] if input.args else None
        if isinstance(call, EndRunInput):
            first = await self._spans.ends(call)
            result = await super().execute_activity(input)
            if first and isinstance(result, EndRunResult) and result.kind == "ended":
                await self._spans.ended(call, result)
            return result
        if not isinstance(call, GenerateInput | CallToolInput | RunTaskInput):
            return await super().execute_activity(input)
        return await self._spans.around(call, lambda: super(_Traced, self).execute_activity(input))


class _Spans:
    def __init__(self, telemetry: Telemetry, services: Services) -> None:
        self._tracer = telemetry.tracer("perdure.worker")
        self._services = services
        self._traces = RunTraces(services.database, telemetry.provider)
        self._answered: dict[str, int] = {}

    async def around(
        self, call: GenerateInput | CallToolInput | RunTaskInput, carry_out: Callable[[], Awaitable[T]]
    ) -> T:
        """Carry a call out within its span."""
        span = self.task(call) if isinstance(call, RunTaskInput) else await self.begin(call)
        if span is None:
            return await carry_out()
        try:
            with use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                result = await carry_out()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, ApplicationError):  # else the worker leaves: another has the call, and its span
                failed(span, error.type or type(error).__name__)
                span.end()
            raise
        finally:
            ended = self._answered.pop(call.message, None) if isinstance(call, GenerateInput) else None
        finish(span, result, ended)
        return result

    async def around_tool(
        self, call: CallToolInput, carry_out: Callable[[], Awaitable[CallToolResult]]
    ) -> CallToolResult:
        """Carry out a tool call that is made with the answer that asks for it: the answer's span ends before it begins."""
        if get_current_span().is_recording():  # else the answer has none, and nobody would take its end away
            self._answered.setdefault(call.message, time.time_ns())
        return await self.around(call, carry_out)

    async def begin(self, call: GenerateInput | CallToolInput) -> Span | None:
        """The span of a call that begins; None if it has none, or the store is away, which the call itself waits for."""
        if isinstance(call, CallToolInput) and call.child:
            return None  # the sub-agent's run has its own
        key = SessionKey(call.tenant, call.session)
        try:
            trace = await self._traces.of(key, call.run)
            name, kind, told = self._model(call) if isinstance(call, GenerateInput) else await self._tool(key, call)
        except Exception as error:
            if not is_away(error):
                raise
            logger.info("trace.database_away run=%s", call.run)
            return None
        common = {"gen_ai.conversation.id": call.session, "gen_ai.agent.name": call.agent, "perdure.run": call.run}
        place = {"perdure.step": call.step, "perdure.attempt": activity.info().attempt}
        parent = set_span_in_context(trace.context(trace.step_id(call.step)))
        return self._tracer.start_span(name, parent, kind, {**common, **place, **told})

    def task(self, call: RunTaskInput) -> Span:
        """The span of a stage's task, a trace of its own: what called it is a client of the stage session."""
        told: dict[str, str | int] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.task,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": call.session,
            "perdure.tenant": call.tenant,
            "perdure.workflow": call.workflow,
            "perdure.stage": call.stage,
            "perdure.action": call.ordinal,
            "perdure.attempt": activity.info().attempt,
        }
        return self._tracer.start_span(f"execute_tool {call.task}", kind=SpanKind.INTERNAL, attributes=told)

    def _model(self, call: GenerateInput) -> tuple[str, SpanKind, dict[str, str]]:
        told = {"gen_ai.operation.name": "chat"}
        if not self._services.app.serves(call.agent):
            return "chat", SpanKind.CLIENT, told
        model = self._services.app.agent(call.agent).bind()
        provider = _PROVIDERS.get(model.provider, model.provider)
        named = {"gen_ai.provider.name": provider, "gen_ai.request.model": model.model_id}
        return f"chat {model.model_id}", SpanKind.CLIENT, {**told, **named}

    async def _tool(self, key: SessionKey, call: CallToolInput) -> tuple[str, SpanKind, dict[str, str]]:
        asked = ((await self._services.answer(key, call.message)).tool_calls or [])[call.index]
        told = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": asked.tool_name,
            "gen_ai.tool.call.id": asked.tool_call_id,
            "gen_ai.tool.type": "function",
            "perdure.tool.effect": call.effect,
        }
        return f"execute_tool {asked.tool_name}", SpanKind.INTERNAL, told

    async def ends(self, call: EndRunInput) -> bool:
        """Whether a run is still open, so that its end is told once."""
        try:
            return await was_open(self._services.database, SessionKey(call.tenant, call.session), call.run)
        except Exception as error:
            if not is_away(error):
                raise
            return True

    async def ended(self, call: EndRunInput, result: EndRunResult) -> None:
        """Send the spans of a run that has ended, and of its steps."""
        key = SessionKey(call.tenant, call.session)
        try:
            trace = await self._traces.of(key, call.run)
            run = await read_ended_run(self._services.database, key, call.run, last_step=result.step)
        except Exception as error:
            if not is_away(error):
                raise
            logger.info("trace.run_lost run=%s", call.run)
            return
        self._send_run(trace, run, result)
        for step in run.steps:
            parent = set_span_in_context(trace.context(trace.span_id))
            with named(trace.trace_id, trace.step_id(step.number)):
                told = {"perdure.run": call.run, "perdure.step": step.number}
                span = self._tracer.start_span(f"step {step.number}", parent, attributes=told, start_time=step.began_ns)
            span.end(step.ended_ns)

    def _send_run(self, trace: RunTrace, run: EndedRun, result: EndRunResult) -> None:
        parent = None if trace.parent is None else set_span_in_context(trace.context(trace.parent))
        with named(trace.trace_id, trace.span_id):
            span = self._tracer.start_span(f"invoke_agent {run.agent}", parent, start_time=run.began_ns)
        span.set_attributes(
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": run.agent,
                "gen_ai.agent.id": run.agent_id,
                "gen_ai.conversation.id": run.session,
                "perdure.run": result.run,
                "perdure.tenant": run.tenant,
                "perdure.status": result.status,
                "perdure.steps": result.step,
                "perdure.model_calls": result.cycles,
                **usage_of(result.usage),
            }
        )
        if result.status == "failed":
            failed(span, str((result.error or {}).get("code") or (result.error or {}).get("type")))
        span.end(run.ended_ns)
