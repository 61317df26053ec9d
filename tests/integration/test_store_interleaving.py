"""The hot writes on a real PostgreSQL: calls that are repeated, overtaken and interleaved write rows and events once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from perdure.store.answers import read_delta_text
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from tests.integration.store_story import CONNECTIONS, Story, checkpoint, step_start
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("seed", range(scaled(100)))
async def test_calls_that_are_repeated_and_interleaved_keep_the_order(story: Story, seed: int) -> None:
    """Whatever is sent twice, late, or by a second execution: events and thread hold, and each run ends once."""
    chance = random.Random(seed)
    for n in range(3):
        await story.submit(f"input {n}", key=f"input {n}")
    history: list[Callable[[], Awaitable[object]]] = []
    while (begun := await story.begin(execution=f"execution-{chance.randrange(2)}")).kind != "nothing":
        for layer in _layers(story, str((begun.row or {})["run"]), chance):
            calls = layer * 2 + [chance.choice(history) for _ in range(4) if history]
            chance.shuffle(calls)
            await _together(calls)
            history.extend(layer)
    await _together(history)
    facts = await story.check()
    assert len(facts.runs) == 3
    kinds = Counter((event.run, event.step, event.type) for event in facts.events)
    once = ("run.queued", "run.started", "step_start", "step_end", "checkpoint", "action", "observation")
    assert {count for (_, _, kind), count in kinds.items() if kind in once} == {1}
    rows = await story.rows()
    ended = sum(event.type == "tool_execution_end" for event in facts.events)
    assert ended == sum(row["duration_ms"] is not None for row in rows["tool_calls"])
    assert {row["state"] for row in rows["tool_calls"]} <= {"done"}
    for item in facts.messages:
        if isinstance(item.message, AssistantMessage) and item.run is not None:
            assert await read_delta_text(story.database, story.key, item.run, item.id) == "onetwothree"


async def _together(calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run calls at once, as many as there are connections."""
    left = iter(calls)

    async def one_by_one() -> None:
        for call in left:
            await call()

    await asyncio.gather(*(one_by_one() for _ in range(CONNECTIONS)))


def _layers(story: Story, run: str, chance: random.Random) -> list[list[Callable[[], Awaitable[object]]]]:
    """The calls of one run by what must be there before them: those of one layer may come in any order."""
    layers: list[list[Callable[[], Awaitable[object]]]] = []
    pending: list[JSONObject] = []
    for step in range(1, chance.randint(1, 3) + 1):
        pending = [*pending, step_start(step)]
        count, riding = chance.randint(1, 4), list(pending)
        layers.append([_bound(story.deltas, run, "one two three", step, pending=riding)])
        layers.append([_bound(story.save, run, step, count, pending=riding)])
        layers.append([_bound(story.claim, run, index, step=step) for index in range(count)])
        stored = [_bound(story.result, run, index, step=step, value=index) for index in range(count)]
        layers.append(stored if chance.random() < 0.8 else stored[1:])
        if len(layers[-1]) < count:
            break
        pending = [checkpoint(run, step)]
    ends = [
        _bound(story.end, run, status, pending=pending)
        for status in chance.sample(("completed", "failed", "cancelled"), 2)
    ]
    note = _bound(story.note, "noted", run, number=chance.randint(1, 3), pending=pending)
    return [*layers, [note, *ends]]


def _bound(call: Callable[..., Awaitable[object]], *given: Any, **named: Any) -> Callable[[], Awaitable[object]]:
    return lambda: call(*given, **named)
