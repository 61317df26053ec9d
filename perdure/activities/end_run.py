"""`end_run`: settles what a run left open, writes its one terminal event, and takes what it cost. A local activity."""

from __future__ import annotations

import dataclasses
import logging
from datetime import datetime
from typing import Any, cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import EndRunInput, EndRunResult
from perdure.activities.generate import partial_message
from perdure.activities.lifeline import writer_of
from perdure.activities.services import Services
from perdure.errors import ServerUnavailable
from perdure.store import runs
from perdure.store.answers import Writer, read_delta_text
from perdure.store.database import is_away
from perdure.store.payments.settling import settle_payments
from perdure.store.runs import Ending
from perdure.testing.crash import crash_point
from perdure.uap.events import run_event
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.timestamp import format_timestamp, parse_timestamp

logger = logging.getLogger(__name__)

_NOT_RUN = {
    "completed": "This tool was not run: the run ended with its calls unexecuted.",
    "failed": "This tool has no result: the run failed before it had one.",
    "cancelled": "This tool has no result: the run was cancelled before it had one.",
}


class EndRun:
    """The ends of runs that one worker writes."""

    def __init__(self, services: Services) -> None:
        """Write to the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.END_RUN)
    async def end_run(self, call: EndRunInput) -> EndRunResult:
        """End a run once; a second call answers what the first came to."""
        writer = writer_of(call.tenant, call.session, call.run)
        partial = await self._partial(writer, call)
        crash_point("end_run.storing")
        answer = await runs.end_run(self._services.database, writer, _ending(call, partial), call.pending)
        crash_point("end_run.stored")
        self._services.announcer.ended(writer.key)
        self._services.forget_before(call.run)
        if call.paid:
            await self._settle(writer)
        ended = EndRunResult(
            kind="gone" if answer["kind"] == "gone" else "ended",
            run=call.run,
            status=call.status,
            at=call.now,
            step=call.step,
            usage=call.usage,
            cycles=call.cycles,
            error=call.error,
            pending=cast("list[dict[str, Any]]", answer.get("pending") or []),
            usage_by_agent=call.usage_by_agent,
        )
        return _as_before(ended, answer) if answer["kind"] == "stored" else ended

    async def _settle(self, writer: Writer) -> None:
        """Take what the run cost. The run has ended, whatever its gate raises: then the sweep asks again."""
        database, gates = self._services.database, self._services.gates
        try:
            settled = await settle_payments(database, gates, writer.key, writer.run)
        except Exception as error:
            if is_away(error) or isinstance(error, ServerUnavailable):
                raise
            logger.exception("payment.settle_deferred run=%s", writer.run)
            return
        if settled:
            self._services.announcer.changed(writer.key)

    async def _partial(self, writer: Writer, call: EndRunInput) -> tuple[JSONObject, bytes] | None:
        """The answer that a worker was streaming when it died, rebuilt from its deltas."""
        if call.open_answer is None:
            return None
        text = await read_delta_text(self._services.database, writer.key, call.run, str(call.open_answer["id"]))
        if not text.strip():
            return None
        body = dumps(partial_message(text).to_json())
        return {**call.open_answer, "sha256": sha256_hex(body)}, body


def _as_before(ended: EndRunResult, row: JSONObject) -> EndRunResult:
    """What the first end came to: this one was late and changed nothing."""
    known = cast("dict[str, Any]", row)
    return dataclasses.replace(
        ended,
        status=known["status"],
        at=format_timestamp(parse_timestamp(known["at"])),
        step=known["step"],
        usage=known["usage"],
        cycles=known["cycles"],
        error=known["error"],
        usage_by_agent=known["usage_by_agent"],
    )


def _ending(call: EndRunInput, partial: tuple[JSONObject, bytes] | None) -> Ending:
    settle = dumps(_NOT_RUN[call.status])
    detail: JSONObject = {"at": call.now, "usage": call.usage, "cycles": call.cycles, "steps": call.step}
    if call.error is not None:
        detail["error"] = call.error
    if call.usage_by_agent:
        detail["usageByAgent"] = cast(JSONObject, call.usage_by_agent)
    if call.controls:
        detail["controls"] = list(call.controls)
    return Ending(
        status=call.status,
        error=call.error,
        usage=call.usage,
        cycles=call.cycles,
        step=call.step,
        now=datetime.fromisoformat(call.now),
        at=call.now,
        settle=settle,
        settle_sha256=sha256_hex(settle),
        event=run_event(f"run.{call.status}", detail),
        partial=partial[0] if partial else None,
        partial_body=partial[1] if partial else None,
        usage_by_agent=cast(JSONObject, call.usage_by_agent),
    )
