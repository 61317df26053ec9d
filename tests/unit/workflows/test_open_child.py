"""One open sub-agent: cancelled once, whenever it comes; and what is left of finished ones."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perdure.activities.contracts import RunFrame, SessionInput
from perdure.uap.spec import AgentSpec
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.open_child import OpenChild


class Handle:
    """A child workflow's handle, as far as it is cancelled."""

    def __init__(self) -> None:
        self.cancels = 0

    def cancel(self) -> None:
        self.cancels += 1


async def started(child: OpenChild) -> Handle:
    handle = Handle()
    await child.has_started(cast(Any, handle))
    return handle


async def test_it_is_cancelled_once() -> None:
    child = OpenChild("tenant", "child")
    handle = await started(child)
    child.cancel()
    child.cancel()
    assert handle.cancels == 1


async def test_a_cancel_while_it_starts_reaches_it() -> None:
    child = OpenChild("tenant", "child")
    child.starting = True
    child.cancel()
    assert (await started(child)).cancels == 1


async def test_it_is_in_flight_from_its_start_to_its_end() -> None:
    child = OpenChild("tenant", "child")
    assert not child.in_flight
    child.starting = True
    assert child.in_flight
    await started(child)
    assert child.in_flight
    child.has_ended()
    assert not child.in_flight


@pytest.mark.parametrize("count", [1, 1000])
def test_a_finished_sub_agent_leaves_an_id_and_its_tokens(count: int) -> None:
    """Sums by path, not one entry per sub-agent; nothing stays in flight."""
    message: dict[str, Any] = {"type": "user", "id": "m", "content": [], "timestamp": "2026-01-06T00:00:00.000Z"}
    frame = RunFrame("run", "node", 0, 0, "m", "sha", message, AgentSpec("chief", "id"))
    run = RunInHand(SessionInput("t", "s", "chief"), frame, None, None, cast(Any, None), cast(Any, None))
    usage = {"chief/scout": {"inputTokens": 2, "outputTokens": 1, "totalTokens": 3}}
    for number in range(count):
        run.take_child(f"call_{number}", f"session_{number}", usage)
    assert (run.in_flight, run.children) == (0, {})
    assert len(run.sub_agents) == count
    assert run.usage_by_agent == {
        "chief/scout": {"inputTokens": 2 * count, "outputTokens": count, "totalTokens": 3 * count}
    }
    assert run.spent().total_tokens == 3 * count
