"""W10: 100,000 idle sessions: what they cost the worker, and the time to wake one against a session's first turn."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from statistics import median
from typing import Any

from benchmarks.findings import Finding, scaled
from benchmarks.pairs import Ratio, paired
from benchmarks.processes import Roles
from benchmarks.servers import BenchServers
from benchmarks.serving import prepared, serving
from benchmarks.session_copies import copy_session
from perdure.runtime.sessions import Sessions
from perdure.runtime.sweep import Sweep

_SESSIONS = 100_000
_PAIRS = 60
_FEWEST_PAIRS = 5
_WINDOW_S = 30
"""How long idle processes are watched: each has looked for work several times."""
_TURN = json.dumps({"calls": 1})
_LIMIT_RATIO = 1.5
_LIMIT_BYTES = 40.0
"""Nothing per session: whatever holds anything of one holds at least its id, and the text of one takes 85 bytes."""


async def run(servers: BenchServers, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Idle sessions beside a worker, then turns. Options: "scale", 1 by default, of the sessions, the pairs and the time in which idle processes are watched.

    Raises:
        RuntimeError: a turn ended otherwise than it should.
    """
    count, pairs = scaled(options, _SESSIONS), max(_FEWEST_PAIRS, scaled(options, _PAIRS))
    window_s = max(1, scaled(options, _WINDOW_S))
    place = await prepared(servers, "w10")
    async with serving(place) as (worker, _), place.connect() as sessions:
        roles = Roles({**servers.pids, "worker": [worker.pid]})
        template, _ = await _turn(sessions, None)
        for _ in range(pairs):
            await _turn(sessions, None)
        while await Sweep(sessions.client, sessions.database, fold_after=timedelta()).fold():
            pass
        alone = await _idle("no", roles, window_s)
        before = roles.memory()["worker"].pss_bytes
        copies = await copy_session(place.database_url, template, count)
        crowded = await _idle(str(count), roles, window_s)
        held = (roles.memory()["worker"].pss_bytes - before) / count
        first, woken = await _pairs(sessions, copies[:: max(1, count // pairs)][:pairs])
        after_turns = roles.memory()["worker"].pss_bytes
    ratio = paired(woken, first)
    found = [
        Finding("worker's memory per idle session", held, "bytes", at_most=_LIMIT_BYTES),
        Finding("worker's memory", before / 1e6, "MB", why=f"{after_turns / 1e6:.1f} MB at the end"),
        *alone,
        *crowded,
        Finding("a session's first turn, median", median(first), "ms"),
        Finding("an idle session's next turn, median", median(woken), "ms"),
        _ratio_finding(ratio),
    ]
    return [one.to_row("W10", {"sessions": count, "pairs": pairs, "window_s": window_s}) for one in found]


def _ratio_finding(ratio: Ratio) -> Finding:
    found = Finding("waking an idle session against a first turn", ratio.median, "times", at_most=_LIMIT_RATIO)
    return replace(found, low=ratio.low, high=ratio.high)


async def _turn(sessions: Sessions, session: str | None) -> tuple[str, float]:
    """A turn in a session, or in a new one: the session, and milliseconds from handing it in to its result."""
    began = time.perf_counter()
    handle = await sessions.submit("stepper", _TURN, session=session)
    turn = await handle.result()
    took = (time.perf_counter() - began) * 1000
    if turn.response.text != "done":
        raise RuntimeError(f"W10: a turn ended with {turn.response.text[:80]!r}")
    return handle.session, took


async def _idle(sessions: str, roles: Roles, window_s: float) -> list[Finding]:
    """What the processes use while nothing is asked of them."""
    before = roles.sample()
    await asyncio.sleep(window_s)
    after = roles.sample()
    return [
        Finding(f"CPU per second with {sessions} idle sessions, {role}", (used - before.cpu_ms[role]) / window_s, "ms")
        for role, used in after.cpu_ms.items()
    ]


async def _pairs(sessions: Sessions, idle: list[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of first turns, and of turns that wake, in turn; each goes first every other time."""
    first: list[float] = []
    woken: list[float] = []
    for number, session in enumerate(idle):
        both = [(first, None), (woken, session)]
        for times, where in both if number % 2 else reversed(both):
            times.append((await _turn(sessions, where))[1])
    return first, woken
