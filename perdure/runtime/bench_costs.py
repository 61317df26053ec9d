"""What runs have left behind: steps, calls, tokens, history and rows, their sub-agents' with them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from perdure.runtime.history_size import HistorySize, histories_since, last_history
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from perdure.store.folding import fold_run
from perdure.store.run_trees import TreeRun, read_trees
from perdure.store.stored_size import stored_bytes
from perdure.uap.session_key import SessionKey

_AT_ONCE = 20
_FOLD_S = 5.0
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Before:
    """What a session had before: the last execution's size, and bytes of rows."""

    history: HistorySize | None
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class BenchCosts:
    """Totals over all runs and the runs of the sub-agents that they called.

    Attributes:
        steps: taken.
        model_calls: answered.
        tool_calls: calls of sub-agents among them.
        input_tokens: as vendors count them.
        output_tokens: likewise.
        cost: in the currency of the table of prices; None if a model in it has no price.
        history_events: of Temporal.
        history_bytes: likewise.
        stored_bytes: of rows of PostgreSQL, without indexes; deltas are folded.
    """

    steps: int
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost: Decimal | None
    history_events: int
    history_bytes: int
    stored_bytes: int


async def read_before(sessions: Sessions, session: str) -> Before:
    """What a session has.

    Raises:
        RPCError: Temporal does not answer.
    """
    history = await last_history(sessions.client, sessions.key_of(session))
    return Before(history, await stored_bytes(sessions.database, sessions.tenant, [session]))


async def read_costs(sessions: Sessions, run_ids: Collection[str], before: Mapping[str, Before]) -> BenchCosts:
    """What runs that have ended cost; their deltas are folded first, as a worker does a while later.

    Args:
        sessions: the connection.
        run_ids: of runs that nobody's code called.
        before: of sessions that had been there before them.

    Raises:
        RPCError: Temporal does not answer.
    """
    database, tenant = sessions.database, sessions.tenant
    tree = await read_trees(database, tenant, run_ids)
    await _fold(database, tree)
    histories = await _histories(sessions, tree, before)
    roots = {run.key.session for run in tree if run.id in run_ids}
    size = await stored_bytes(database, tenant, roots) - sum(one.stored_bytes for one in before.values())
    used = [cast("dict[str, Any]", run.usage or {}) for run in tree]
    costs = [usage.get("cost") for usage in used if usage]
    return BenchCosts(
        steps=sum(run.steps for run in tree),
        model_calls=sum(run.model_calls for run in tree),
        tool_calls=sum(run.tool_calls for run in tree),
        input_tokens=sum(usage.get("inputTokens", 0) for usage in used),
        output_tokens=sum(usage.get("outputTokens", 0) for usage in used),
        cost=None if not costs or None in costs else sum((Decimal(str(cost)) for cost in costs), Decimal()),
        history_events=sum(size.events for size in histories),
        history_bytes=sum(size.size_bytes for size in histories),
        stored_bytes=size,
    )


async def _fold(database: Database, tree: Sequence[TreeRun]) -> None:
    """Fold what can be: a session that is busy for long is left to the workers."""
    end = asyncio.get_running_loop().time() + _FOLD_S
    for run in tree:
        while run.ended is not None and not await fold_run(database, run.ended):
            if asyncio.get_running_loop().time() >= end:
                return
            await asyncio.sleep(_PAUSE_S)


async def _histories(sessions: Sessions, tree: Sequence[TreeRun], before: Mapping[str, Before]) -> list[HistorySize]:
    known: dict[SessionKey, set[str]] = defaultdict(set)
    for run in tree:
        known[run.key].add(run.execution)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(key: SessionKey) -> list[HistorySize]:
        had = before.get(key.session)
        async with gate:
            return await histories_since(sessions.client, key, known[key], had.history if had else None)

    return [size for sizes in await asyncio.gather(*map(read, known)) for size in sizes]
