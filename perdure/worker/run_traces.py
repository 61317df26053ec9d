"""Which trace a run belongs to. It follows from rows, so every worker, and a worker after a crash, finds the same."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from sqlalchemy import Row, select

from perdure.runtime.telemetry import derived_id
from perdure.store.database import Database
from perdure.store.tables import inputs, sessions, tool_calls
from perdure.uap.session_key import SessionKey

_RECENT = 1024


@dataclass(frozen=True, slots=True)
class RunTrace:
    """Where a run's spans stand.

    Attributes:
        run: the run.
        trace_id: of the whole.
        parent: the span under which the run stands: of the submit, or of a parent's step; None for a root.
        flags: whether the trace is sampled.
    """

    run: str
    trace_id: int
    parent: int | None
    flags: TraceFlags

    @property
    def span_id(self) -> int:
        """Of the run's own span."""
        return derived_id(8, self.run)

    def step_id(self, step: int) -> int:
        """Of a step's span."""
        return derived_id(8, self.run, step)

    def context(self, span_id: int) -> NonRecordingSpan:
        """A span of this trace as a parent, sent by somebody at some time."""
        return NonRecordingSpan(SpanContext(self.trace_id, span_id, is_remote=True, trace_flags=self.flags))


class RunTraces:
    """The traces of the runs that a worker has in hand."""

    def __init__(self, database: Database, provider: TracerProvider) -> None:
        """Read from `database`; `provider` samples what nobody has sampled before."""
        self._database = database
        self._provider = provider
        self._known: OrderedDict[tuple[str, str, str], RunTrace] = OrderedDict()

    async def of(self, key: SessionKey, run: str) -> RunTrace:
        """The trace of a run: its input's, else its parent's for a sub-agent's, else one of its own."""
        name = (key.tenant, key.session, run)
        if name not in self._known:
            self._known[name] = await self._find(key, run)
            while len(self._known) > _RECENT:
                self._known.popitem(last=False)
        return self._known[name]

    async def _find(self, key: SessionKey, run: str) -> RunTrace:
        row = await self._read(key, run)
        if row is not None and row.trace is not None:
            _, trace_id, parent, flags = str(row.trace).split("-")
            return RunTrace(run, int(trace_id, 16), int(parent, 16), TraceFlags(int(flags, 16)))
        if row is not None and row.parent_run is not None and row.step is not None:
            above = await self.of(SessionKey(key.tenant, row.parent_session), row.parent_run)
            return RunTrace(run, above.trace_id, above.step_id(row.step), above.flags)
        trace_id = derived_id(16, run)
        decided = self._provider.sampler.should_sample(None, trace_id, run)
        return RunTrace(run, trace_id, None, TraceFlags(int(decided.decision.is_sampled())))

    async def _read(self, key: SessionKey, run: str) -> Row[Any, Any, Any, Any] | None:
        """The input's trace, and for the run that a tool call has asked of a sub-agent the step of that call."""
        asked = (
            (tool_calls.c.tenant_id == sessions.c.tenant_id)
            & (tool_calls.c.session_id == sessions.c.parent_session)
            & (tool_calls.c.message_id == sessions.c.parent_message)
            & (tool_calls.c.index == sessions.c.parent_index)
            & (inputs.c.ordinal == 1)
        )
        mine = (sessions.c.tenant_id == inputs.c.tenant_id) & (sessions.c.id == inputs.c.session_id)
        joined = inputs.join(sessions, mine).outerjoin(tool_calls, asked)
        query = select(inputs.c.trace, sessions.c.parent_session, sessions.c.parent_run, tool_calls.c.step)
        found = (inputs.c.tenant_id == key.tenant) & (inputs.c.session_id == key.session) & (inputs.c.run_id == run)
        async with self._database.transaction() as connection:
            return (await connection.execute(query.select_from(joined).where(found))).first()
