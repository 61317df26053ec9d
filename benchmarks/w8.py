"""W8: recovery. SIGKILL of the worker with 50 runs in flight: from when the new worker is ready to each workflow's next step."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.findings import Finding, percentile, scaled
from benchmarks.histories import Execution, executions_of
from benchmarks.servers import BenchServers
from benchmarks.serving import Place, prepared, start_worker
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.uap.session_key import SessionKey

_RUNS = 50
_KILLS = 3
_CALLS = 20
_LATENCY_S = 0.3
_STEPS_BEFORE = 2
_LIMIT_P50_S = 4.0
_LIMIT_LAST_S = 7.0


@dataclass(frozen=True)
class Recovery:
    """One kill: seconds until each workflow itself went on, one per run, in order.

    Attributes:
        from_ready_s: since the new worker was ready.
        from_kill_s: since the kill.
    """

    from_ready_s: Sequence[float]
    from_kill_s: Sequence[float]


async def run(servers: BenchServers, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Kill the worker three times, in fresh runs each time. Options: "scale", 1 by default, of the runs; "kills".

    Raises:
        RuntimeError: a run did not come to its end, or had before the kill.
    """
    place = await prepared(servers, "w8")
    runs, kills = scaled(options, _RUNS), int(options.get("kills", _KILLS))
    async with place.connect() as sessions:
        found = [await _recovery(place, sessions, runs) for _ in range(kills)]
    middles, lasts = [median(one.from_ready_s) for one in found], [one.from_ready_s[-1] for one in found]
    findings = [
        Finding("new worker ready to the workflow's next step, p50", median(middles), "s", at_most=_LIMIT_P50_S),
        Finding("new worker ready to the workflow's next step, p90", median(_tenth(found)), "s"),
        Finding("new worker ready to the last workflow's next step", median(lasts), "s", at_most=_LIMIT_LAST_S),
        Finding("the same, the worst kill", max(lasts), "s"),
        Finding("kill to the workflow's next step, p50", median(median(one.from_kill_s) for one in found), "s"),
        Finding("kill to the last workflow's next step", median(one.from_kill_s[-1] for one in found), "s"),
    ]
    counts = {"runs": runs, "kills": kills, "calls": _CALLS, "latency_s": _LATENCY_S, "tool_s": _LATENCY_S}
    return [one.to_row("W8", counts) for one in findings]


def _tenth(found: Sequence[Recovery]) -> list[float]:
    return [percentile(list(one.from_ready_s), 0.9) for one in found]


async def _recovery(place: Place, sessions: Sessions, runs: int) -> Recovery:
    spec = json.dumps({"calls": _CALLS, "latency_s": _LATENCY_S, "tool_s": _LATENCY_S})
    worker = await start_worker(place)
    try:
        handles = [await sessions.submit("stepper", spec) for _ in range(runs)]
        await asyncio.gather(*(_under_way(handle) for handle in handles))
        killed = time.time()
        await worker.kill()
        worker = await start_worker(place)
        ready = time.time()
        for turn in await asyncio.gather(*(handle.result() for handle in handles)):
            if turn.response.text != "done":
                raise RuntimeError(f"W8: a run ended with {turn.response.text[:80]!r}")
        chains = [
            await executions_of(sessions.client, SessionKey(sessions.tenant, handle.session).workflow_id)
            for handle in handles
        ]
    finally:
        await worker.stop()
    nexts = sorted(_next_step(chain, killed) for chain in chains)
    return Recovery([at - ready for at in nexts], [at - killed for at in nexts])


async def _under_way(handle: RunHandle) -> None:
    """Return once the run has done its first steps."""
    done = 0
    async for event in handle.events():
        done += event.type == "step_end"
        if done == _STEPS_BEFORE:
            return


def _next_step(chain: Sequence[Execution], killed: float) -> float:
    """When the workflow first asked for anything after the kill (s since the epoch): only the new worker can have."""
    asked = [at.timestamp() for one in chain for at in one.scheduled()]
    after = [at for at in asked if at > killed]
    if not after:
        raise RuntimeError("W8: a run had ended before the kill")
    return after[0]
