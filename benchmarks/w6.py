"""W6: 1,000 model calls in one run, over a conversation of 200,000 tokens, with tool results of 5 KB."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.findings import Finding, scaled
from benchmarks.histories import executions_of
from benchmarks.processes import Roles
from benchmarks.servers import BenchServers, stored_bytes
from benchmarks.serving import prepared, serving
from benchmarks.work import noise
from perdure.activities.contracts import GENERATE
from perdure.runtime.sweep import Sweep
from perdure.uap.session_key import SessionKey
from perdure.upp import AssistantMessage, UserMessage
from perdure.upp.messages import Message

_CALLS = 1000
_TOKENS = 200_000
_CHARACTERS_PER_TOKEN = 4
_MESSAGE_CHARACTERS = 4000
_RESULT_BYTES = 5000
_LIMIT_MB = 5.0


async def run(servers: BenchServers, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One run. Options: "scale", 1 by default, of the number of calls.

    Raises:
        RuntimeError: the run did not call the model as often as it should.
    """
    calls = max(3, scaled(options, _CALLS))
    place = await prepared(servers, "w6")
    spec = {"calls": calls, "result_bytes": _RESULT_BYTES}
    empty = await stored_bytes(place.database_url)
    async with serving(place) as (worker, _), place.connect() as sessions:
        roles = Roles({**servers.pids, "worker": [worker.pid]})
        before, began = roles.sample(), time.perf_counter()
        handle = await sessions.submit("stepper", json.dumps(spec), history=conversation(_TOKENS))
        turn = await handle.result()
        took_s = time.perf_counter() - began
        after, memory = roles.sample(), roles.memory()["worker"].pss_bytes
        while await Sweep(sessions.client, sessions.database, fold_after=timedelta()).fold():
            pass
        executions = await executions_of(sessions.client, SessionKey(sessions.tenant, handle.session).workflow_id)
    stored = await stored_bytes(place.database_url) - empty
    made = [at for one in executions for at in one.scheduled(GENERATE)]
    if turn.response.text != "done" or len(made) != calls:
        raise RuntimeError(f"W6: {len(made)} model calls of {calls}, the answer is {turn.response.text[:80]!r}")
    sizes = [one.size_bytes for one in executions]
    gaps = [(later - earlier).total_seconds() * 1000 for earlier, later in pairwise(made)]
    share = max(1, len(gaps) // 10)
    found = [
        Finding("model calls of the run that completed", calls, "calls", at_least=calls),
        Finding("history of the largest execution", max(sizes) / 1e6, "MB", at_most=_LIMIT_MB),
        Finding("history of all executions", sum(sizes) / 1e6, "MB"),
        Finding("stored in PostgreSQL, the conversation and its results included", stored / 1e6, "MB"),
        Finding("executions", len(executions), "executions"),
        Finding("events", sum(len(one.events) for one in executions), "events"),
        Finding("per step", took_s * 1000 / calls, "ms"),
        Finding("per step, first tenth, median", median(gaps[:share]), "ms"),
        Finding("per step, last tenth, median", median(gaps[-share:]), "ms"),
        Finding("worker's memory at the end", memory / 1e6, "MB"),
    ]
    found += [
        Finding(f"CPU per step, {role}", (used - before.cpu_ms[role]) / calls, "ms")
        for role, used in after.cpu_ms.items()
    ]
    return [one.to_row("W6", {"calls": calls, "tokens": _TOKENS, "result_bytes": _RESULT_BYTES}) for one in found]


def conversation(tokens: int) -> Sequence[Message]:
    """So many tokens of messages of 1,000 tokens each, four characters a token: a user's and the answer in turn."""
    pairs = range(tokens * _CHARACTERS_PER_TOKEN // (2 * _MESSAGE_CHARACTERS))
    return [
        kind(noise(f"{kind.__name__} {number}", _MESSAGE_CHARACTERS))
        for number in pairs
        for kind in (UserMessage, AssistantMessage)
    ]
