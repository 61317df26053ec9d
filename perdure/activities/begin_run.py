"""`begin_run`: takes the session's next input, or adopts a run that is open. A local activity."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.agent_stages import keep_definition
from perdure.activities.children import open_child
from perdure.activities.contracts import BeginRunInput, BeginRunResult, Progress, RunFrame
from perdure.activities.convert import converter
from perdure.activities.history import FoundProgress, progress_of, read_progress
from perdure.activities.lifeline import writer_of
from perdure.activities.rollback import ROLLBACK, roll_back
from perdure.activities.services import Services
from perdure.activities.tree_changes import make_change
from perdure.errors import UnknownSession
from perdure.store import beginning
from perdure.store.answers import Writer
from perdure.store.beginning import Begun
from perdure.store.change_inputs import read_base
from perdure.store.checkpoints import last_checkpoint
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.session_limits import read_limits, run_seconds
from perdure.testing.crash import crash_point
from perdure.uap.cut import cut_input
from perdure.uap.recorded_usage import total_usage
from perdure.uap.spec import AgentSpec
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.redaction import known_secrets

_FOR_WORKFLOW = ("max_steps", "max_cost", "max_total_tokens", "max_duration", "client_tools", "stream")


class BeginRun:
    """The runs that begin on one worker."""

    def __init__(self, services: Services) -> None:
        """Begin runs of the agents in `services`."""
        self._services = services

    @activity.defn(name=contracts.BEGIN_RUN)
    async def begin_run(self, call: BeginRunInput) -> BeginRunResult:
        """Take the next input in one transaction.

        Raises:
            UnknownAgent: this worker does not serve the session's agent.
            UnknownSession: the session belongs to another agent than the workflow was started for.
        """
        writer = writer_of(call.tenant, call.session, "")
        if call.parent is not None:
            await open_child(self._services, call, call.parent)
        agent = self._services.app.agent(call.agent)
        made = agent.spec(self._services.limits, self._services.prices, path=call.agent)
        frozen = converter.unstructure(self._services.app.charged(made))
        spec = known_secrets.json(frozen)
        await keep_definition(self._services, writer.key, agent)
        crash_point("begin_run.storing")
        begun = await self._begin(writer, call, spec)
        crash_point("begin_run.stored")
        if begun.kind == "agent":
            raise UnknownSession(f"session {call.session} belongs to agent {begun.agent!r}, not {call.agent!r}")
        if begun.row is None:
            return BeginRunResult(kind=begun.kind, paused=begun.paused)
        self._services.announcer.changed(writer.key)
        frame = await self._frame(writer, begun)
        found, source = await self._progress(writer, begun, frame)
        orphan, steered = bool(begun.row.get("orphan")), bool(begun.row.get("steered"))
        return BeginRunResult(begun.kind, begun.paused, frame, found.progress, source, found.pending, orphan, steered)

    async def _begin(self, writer: Writer, call: BeginRunInput, spec: JSONObject) -> Begun:
        """Take the next input; changes of the thread tree that stand before it are made on the way."""
        database, now = self._services.database, datetime.fromisoformat(call.now)
        while True:
            begun = await beginning.begin_run(
                database, writer.key, agent=call.agent, execution=writer.execution, spec=spec, now=now
            )
            if begun.ordinal is None:
                return begun
            if begun.kind == ROLLBACK:
                await roll_back(self._services, writer, begun.ordinal)
                continue
            resumed = await make_change(self._services, writer, call, begun.ordinal, spec)
            if resumed is not None:
                return resumed

    async def _frame(self, writer: Writer, begun: Begun) -> RunFrame:
        row = cast("dict[str, Any]", begun.row)
        start = int(row["start"])
        stored = await self._input(writer, row, start)
        options, run = begun.options or {}, str(row["run"])
        self._services.remember_options(run, options)
        left = await self._left(writer, begun, run)
        is_timed = begun.kind == "adopted" and ("seconds" in left or "max_duration" in options)
        return RunFrame(
            run=run,
            node=row["node"],
            start=start,
            epoch=row["epoch"],
            message=row["message"],
            message_sha=row["message_sha"],
            input=cut_input(stored).to_json(),
            spec=converter.structure(row["spec"], AgentSpec),
            options=_for_workflow(options),
            adopted=begun.kind == "adopted",
            started=row["started"],
            session=left,
            elapsed_s=await run_seconds(self._services.database, writer.key, run) if is_timed else 0.0,
        )

    async def _input(self, writer: Writer, row: dict[str, Any], start: int) -> Message:
        """The run's input; read for its model calls too, if what comes before it was."""
        cache, place = self._services.cache, {"first": start, "end": start + 1}
        known: list[StoredMessage] = []
        if cache.reaches(writer.key, row["node"], position=start, epoch=row["epoch"]):
            known = await cache.read(writer.key, row["node"], epoch=row["epoch"], **place)
        found = known or await read_messages(self._services.database, writer.key, row["node"], discarded=True, **place)
        return found[0].message

    async def _left(self, writer: Writer, begun: Begun, run: str) -> dict[str, Any]:
        """What is left of the session's limits: a run that goes on from a checkpoint counts what it had used itself."""
        database, row = self._services.database, begun.row or {}
        if not row.get("limited") and begun.progress is None:
            return {}
        limits, used = await read_limits(database, writer.key)
        if limits is None:
            return {}
        base = begun.progress or (await read_base(database, writer.key, run) if begun.kind == "adopted" else None)
        known = _read_progress(base)
        if known is not None:
            used = used.less(known.step, total_usage([known.usage, *known.usage_by_agent.values()]))
        return limits.left(used).to_json()

    async def _progress(self, writer: Writer, begun: Begun, frame: RunFrame) -> tuple[FoundProgress, str | None]:
        """Where a run stands that is not at its beginning.

        An adopted one by the history of the execution that had it, else by its last row; a new one at a checkpoint.
        """
        before = str((begun.row or {})["execution"])
        if begun.kind != "adopted":
            return FoundProgress(known=False, progress=_read_progress(begun.progress)), None
        base = _read_progress(await read_base(self._services.database, writer.key, frame.run))
        if before == writer.execution:
            return FoundProgress(known=False, progress=base), None
        found = await read_progress(activity.client(), writer.key.workflow_id, before, frame.run)
        if found.known:
            return replace(found, progress=found.progress or base), "history"
        record = await last_checkpoint(self._services.database, writer.key, frame.run)
        progress = base if record is None else progress_of(cast("dict[str, Any]", record))
        return FoundProgress(known=False, progress=progress), "row"


def _read_progress(packed: JSONObject | None) -> Progress | None:
    """Where a run that goes on from a checkpoint begins."""
    return None if packed is None else converter.structure(packed, Progress)


def _for_workflow(options: JSONObject) -> dict[str, Any]:
    """What a workflow needs of a submit's options; the tools' schemas and all else stay in the row."""
    kept: dict[str, Any] = {name: options[name] for name in _FOR_WORKFLOW if name in options}
    tools = cast("list[dict[str, Any]]", kept.get("client_tools") or [])
    if tools:
        kept["client_tools"] = [{"name": tool["name"]} for tool in tools]
    return kept
