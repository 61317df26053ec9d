"""W7: tokens streamed to 1, 100 and 1,000 viewers over SSE: what is added to the delay of the provider's own stream."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from benchmarks.findings import Finding, percentile, scaled
from benchmarks.processes import Roles
from benchmarks.servers import BenchServers
from benchmarks.serving import ROOT, prepared, serving
from benchmarks.viewers import Seen

_CROWDS = {1: 1500, 100: 500, 1000: 200}
"""Deltas of the answer, by viewers."""
_PAUSE_S = 0.02
_LIMIT_MS = 25.0
_WITHIN_S = 600
_LINE_BYTES = 256 * 1024 * 1024


async def run(servers: BenchServers, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One answer for each crowd of viewers. Options: "scale", 1 by default, of viewers and deltas.

    Raises:
        RuntimeError: the viewers could not be had, or did not end within ten minutes.
    """
    place = await prepared(servers, "w7")
    rows: list[dict[str, Any]] = []
    async with serving(place, api=True) as (worker, front):
        assert front is not None, "asked for"
        roles = Roles({**servers.pids, "worker": [worker.pid], "api": [front.pid]})
        async with httpx.AsyncClient(base_url=f"{front.url}/api", timeout=60) as client:
            await _streamed(client, roles, 1, 20)  # what is done once per process
            for viewers, deltas in _CROWDS.items():
                most, count = scaled(options, viewers), max(20, scaled(options, deltas))
                seen, used = await _streamed(client, roles, most, count)
                counts = {"viewers": most, "deltas": count, "pause_s": _PAUSE_S}
                limit = _LIMIT_MS if viewers == 1 else None
                found = _findings(seen, count, limit)
                found += [
                    Finding(f"{_named(most)}: CPU per delta, {role}", ms / count, "ms") for role, ms in used.items()
                ]
                rows += [one.to_row("W7", counts) for one in found]
    return rows


async def _streamed(
    client: httpx.AsyncClient, roles: Roles, viewers: int, deltas: int
) -> tuple[list[Seen], dict[str, float]]:
    """What viewers see of one run in a session that all of them follow before it begins, and the CPU ms of it by role."""
    opened = await client.post("/sessions", json={"agent": "streamer"})
    session = opened.raise_for_status().json()["session"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.viewers", f"{client.base_url}sessions/{session}/events", str(viewers),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES,
    )  # fmt: skip
    assert process.stdout is not None, "a pipe"
    try:
        async with asyncio.timeout(_WITHIN_S):
            if (await process.stdout.readline()).strip() != b"ready":
                raise RuntimeError(f"W7: {viewers} viewers could not be had")
            before = roles.sample().cpu_ms
            spec = json.dumps({"deltas": deltas, "pause_s": _PAUSE_S})
            (await client.post(f"/sessions/{session}/runs", json={"input": spec})).raise_for_status()
            if not (line := await process.stdout.readline()):
                raise RuntimeError(f"W7: the process of {viewers} viewers ended")
            seen = [Seen(**one) for one in json.loads(line)]
            return seen, {role: used - before[role] for role, used in roles.sample().cpu_ms.items()}
    except TimeoutError as error:
        raise RuntimeError(f"W7: {viewers} viewers did not end within {_WITHIN_S} s") from error
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _findings(seen: Sequence[Seen], deltas: int, limit_ms: float | None) -> list[Finding]:
    whole = [one for one in seen if one.end == "run.completed" and one.is_ordered and len(one.delays_ms) == deltas]
    delays = [delay for one in seen for delay in one.delays_ms]
    name = _named(len(seen))
    return [
        Finding(f"{name}: had every delta once, in order, and the end", len(whole), "viewers", at_least=len(seen)),
        Finding(f"{name}: added delay of a delta, p50", percentile(delays, 0.5), "ms"),
        Finding(f"{name}: added delay of a delta, p99", percentile(delays, 0.99), "ms", at_most=limit_ms),
        Finding(f"{name}: longest added delay", max(delays), "ms"),
        Finding(f"{name}: had to resume", sum(one.connections > 1 for one in seen), "viewers"),
        Finding(f"{name}: answered by no stream, and asked again", sum(one.refusals for one in seen), "times"),
    ]


def _named(viewers: int) -> str:
    return f"{viewers} viewers" if viewers > 1 else "1 viewer"
