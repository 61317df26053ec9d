"""What an input does to the run that is active when it comes; by library, and whoever dies in between."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from typing import Any

import pytest

from perdure.errors import InvalidInput, QueueFull, RunActive, RunCancelled
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.messages import read_messages
from perdure.store.runs import list_runs
from perdure.store.sessions import read_nodes, read_session
from perdure.upp.messages import UserMessage
from tests.integration.agents import HELD
from tests.integration.facts import check_session, read_facts
from tests.integration.stack import ROOT, Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit


async def busy(stack: Stack, sessions: Sessions, **values: Any) -> tuple[RunHandle, dict[str, Any]]:
    """A run whose first tool is running, until it is released or cancelled."""
    given = spec(**{"steps": 1, "tool": "none", "seconds": HELD, **values})
    handle = await submit(sessions, given)
    await until(stack, given, "tool")
    return handle, given


async def until(stack: Stack, values: dict[str, Any], kind: str, count: int = 1) -> None:
    async def found() -> bool:
        return len(stack.entries(values["name"], kind)) >= count

    await eventually(found, what=f"{count} times {kind}")


def answers_asked_for(stack: Stack, values: dict[str, Any]) -> set[int]:
    """Which answers a spec's model was asked for; for one again where a busy machine lost the call."""
    return {int(entry["number"]) for entry in stack.entries(values["name"], "model")}


async def _started(sessions: Sessions, session: str) -> list[int]:
    facts = await read_facts(sessions, session)
    return [int(str(event.data["input"])) for event in facts.events if event.type == "run.started"]


async def test_enqueue_says_its_place(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The answer says that it starts, or how many go before it; a repetition says what it has come to."""
    async with stack.connect() as sessions:
        active, _ = await busy(stack, sessions)
        assert (active.accepted.action, active.accepted.place) == ("started", 1)
        first = await submit(sessions, spec(steps=0), session=active.session)
        values = spec(steps=0)
        second = await submit(sessions, values, session=active.session, key="second")
        assert (first.accepted.action, first.accepted.place) == ("queued", 1)
        assert (second.accepted.action, second.accepted.place) == ("queued", 2)
        await sessions.cancel(active.session)
        await second.result()
        again = await submit(sessions, values, session=active.session, key="second", policy="reject")
        assert (again.accepted.action, again.accepted.place, again.accepted.status) == ("started", 0, "completed")


async def test_reject_stores_nothing_and_uses_no_key(stack: Stack, steady_worker: WorkerProcess) -> None:
    """It names the active run; the same key is free afterwards."""
    values = spec(steps=0)
    async with stack.connect() as sessions:
        active, _ = await busy(stack, sessions)
        with pytest.raises(RunActive) as refused:
            await submit(sessions, values, session=active.session, key="free", policy="reject")
        assert refused.value.run_id == active.id
        assert (await sessions.cancel(active.session, wait_s=60)).state == "cancelled"
        assert len(await list_runs(sessions.database, active.accepted.key)) == 1
        later = await submit(sessions, spec(steps=0), session=active.session, key="free", policy="reject")
        assert not later.accepted.repeated
        await later.result()


async def test_reject_takes_one_of_many_at_once(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A run that is about to begin counts as active: of many inputs at the same moment one is taken."""
    async with stack.connect() as sessions:
        opened = await submit(sessions, spec(steps=0))
        await opened.result()
        values = spec(steps=1, tool="none", seconds=HELD)
        many = [submit(sessions, values, session=opened.session, policy="reject") for _ in range(10)]
        found = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(item, RunHandle) for item in found) == 1
        assert sum(isinstance(item, RunActive) for item in found) == 9
        stack.release(values)


async def test_a_full_queue_refuses(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Nothing is stored, the key is unused, and the error says how many may wait."""
    async with stack.connect() as sessions:
        active, _ = await busy(stack, sessions)
        await submit(sessions, spec(steps=0), session=active.session, max_queue=1)
        values = spec(steps=0)
        with pytest.raises(QueueFull, match="no more than 1 may"):
            await submit(sessions, values, session=active.session, max_queue=1, key="full")
        await sessions.cancel(active.session)
        later = await submit(sessions, values, session=active.session, key="full")
        assert not later.accepted.repeated
        await later.result()


async def test_policies_that_cannot_be_used(stack: Stack, steady_worker: WorkerProcess) -> None:
    """They are refused with the names of those there are."""
    async with stack.connect() as sessions:
        for bad in ({"policy": "wait"}, {"policy": ""}, {"max_queue": 0}):
            with pytest.raises(InvalidInput):
                await submit(sessions, spec(steps=0), **bad)


async def test_interrupt_goes_before_what_waits(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The active run is cancelled, and no other; what waited keeps its order behind the interrupting input."""
    async with stack.connect() as sessions:
        active, _ = await busy(stack, sessions)
        waiting = [await submit(sessions, spec(steps=0), session=active.session) for _ in range(2)]
        urgent = await submit(sessions, spec(steps=0), session=active.session, policy="interrupt")
        assert (urgent.accepted.action, urgent.accepted.target, urgent.accepted.place) == ("interrupts", active.id, 1)
        for handle in [urgent, *waiting]:
            assert await finish(sessions, handle) == "completed"
        with pytest.raises(RunCancelled):
            await active.result()
        assert await _started(sessions, active.session) == [1, 4, 2, 3]
    await check_session(stack, active.session)


async def test_interrupt_without_an_active_run_is_an_input_like_any(stack: Stack, steady_worker: WorkerProcess) -> None:
    """There is nothing to interrupt, and nothing is."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0), policy="interrupt")
        assert (handle.accepted.action, handle.accepted.target) == ("started", None)
        assert await finish(sessions, handle) == "completed"


async def test_interrupts_of_a_client_that_dies_are_heard_of(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The row is stored and nobody signalled: a worker's sweep has the active run cancelled."""
    values = spec(steps=0)
    async with stack.connect() as sessions:
        active, _ = await busy(stack, sessions)
        program = (
            "import asyncio, sys\nfrom perdure import connect\nasync def main():\n    async with connect() as sessions:\n"
            "        await sessions.submit('worker', sys.argv[1], session=sys.argv[2], policy='interrupt')\n"
            "asyncio.run(main())\n"
        )
        environment = {**stack.addressing, "PERDURE_CRASH_AT": "submit.stored", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", program, json.dumps(values), active.session]
        died = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, timeout=120)
        assert died.returncode == -9, died.stderr.decode()
        assert await finish(sessions, active) == "cancelled"
        row = (await list_runs(sessions.database, active.accepted.key))[-1]
        assert await finish(sessions, await sessions.run(row.id)) == "completed"


async def roll_back(sessions: Sessions, active: RunHandle) -> RunHandle:
    values = spec(steps=0, text="instead")
    urgent = await submit(sessions, values, session=active.session, policy="rollback")
    assert (urgent.accepted.action, urgent.accepted.target) == ("rolls_back", active.id)
    assert await finish(sessions, urgent) == "completed"
    return urgent


async def check_rolled_back(sessions: Sessions, before: RunHandle, active: RunHandle, urgent: RunHandle) -> None:
    """The new run stands on a branch behind the first; the abandoned one stays on its node."""
    key = active.accepted.key
    row, nodes = await read_session(sessions.database, key), await read_nodes(sessions.database, key)
    (branch,) = [node for node in nodes if node.parent is not None]
    assert row.current_node == branch.id
    assert branch.metadata == {"rolledBack": active.id}
    root = await read_messages(sessions.database, key, str(branch.parent))
    assert {item.run for item in root if item.position < (branch.fork_index or 0)} == {before.id}
    assert {item.run for item in root if item.position >= (branch.fork_index or 0)} == {active.id}
    assert {item.run for item in await read_messages(sessions.database, key, branch.id)} == {urgent.id}


async def test_rollback_goes_on_from_before_the_run(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The model sees what stood before the cancelled run; what that run said is still there to read."""
    async with stack.connect() as sessions:
        before = await submit(sessions, spec(steps=0))
        await before.result()
        values = spec(steps=2, tool="none", seconds=HELD)
        active = await submit(sessions, values, session=before.session)
        await until(stack, values, "tool")
        urgent = await roll_back(sessions, active)
        await check_rolled_back(sessions, before, active, urgent)
        turn = await urgent.result()
        assert len(turn.messages) == 2
        document = await sessions.document(before.session)
        assert document["agentId"]


def users(facts: Any) -> list[str]:
    return [item.run for item in facts.messages if isinstance(item.message, UserMessage)]


async def test_steer_joins_before_the_next_model_call(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Its message stands in the active run; its id answers with that run, and its stream ends with it."""
    async with stack.connect() as sessions:
        active, values = await busy(stack, sessions, steps=5)
        steered = spec(steps=0, text="steered")
        handle = await submit(sessions, steered, session=active.session, policy="steer", key="steer")
        assert (handle.accepted.action, handle.accepted.target) == ("steers", active.id)
        stack.release(values)
        assert await finish(sessions, active) == "completed"
        kinds = [event.type async for event in handle.events()]
        assert kinds[0] == "run.queued"
        assert "input.joined" in kinds
        assert kinds[-1] == "run.completed"
        assert await handle.result() == await active.result()
        assert (await handle.status()).id == active.id
        again = await submit(sessions, steered, session=active.session, key="steer")
        assert (again.accepted.action, again.accepted.status, again.id) == ("joined", "completed", handle.id)
        assert (await again.result()).response.text == "steered"
        assert (await sessions.cancel(active.session, run=handle.id)).state == "completed"
    facts = await check_session(stack, active.session, values["name"])
    assert users(facts) == [active.id, active.id]
    assert answers_asked_for(stack, values) == answers_asked_for(stack, steered) == {0}


async def test_steers_join_in_order(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Several that come during one step are said together, in the order of their places."""
    async with stack.connect() as sessions:
        active, values = await busy(stack, sessions, steps=1)
        many = [spec(steps=0, text=f"{n}") for n in range(3)]
        handles = [await submit(sessions, one, session=active.session, policy="steer") for one in many]
        stack.release(values)
        assert await finish(sessions, active) == "completed"
        assert (await handles[0].result()).response.text == "2"
    facts = await check_session(stack, active.session)
    joined = [event.data["as"] for event in facts.events if event.type == "input.joined"]
    assert joined == [handle.id for handle in handles]


async def test_a_steer_that_comes_too_late_is_a_run_of_its_own(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The run ends with the answer that is under way: the input is run next, under the id that was answered."""
    async with stack.connect() as sessions:
        values = spec(steps=0, latency=HELD)
        active = await submit(sessions, values)
        await until(stack, values, "model")
        handle = await submit(sessions, spec(steps=0, text="own"), session=active.session, policy="steer")
        stack.release(values)
        assert await finish(sessions, handle) == "completed"
        assert (await handle.result()).response.text == "own"
        assert (await handle.status()).id == handle.id
    assert users(await check_session(stack, active.session)) == [active.id, handle.id]


async def test_a_steer_of_a_paused_run_joins_when_it_is_resumed(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Held before its next model call, the run takes it first."""
    async with stack.connect() as sessions:
        active, values = await busy(stack, sessions, steps=5)
        assert (await sessions.pause(active.session, wait_s=60)).state == "paused"
        stack.release(values)

        async def parked() -> bool:
            return (await active.status()).status == "parked"

        await eventually(parked)
        handle = await submit(sessions, spec(steps=0, text="steered"), session=active.session, policy="steer")
        assert (await sessions.resume(active.session, wait_s=60)).state == "resumed"
        assert (await handle.result()).response.text == "steered"
        assert (await handle.status()).id == active.id
    assert answers_asked_for(stack, values) == {0}


@pytest.mark.parametrize("after", ["joined", "answered"])
async def test_a_steered_run_is_adopted(stack: Stack, steady_worker: WorkerProcess, after: str) -> None:
    """Its execution is lost behind the joining: whoever takes the run up knows what has joined, and where."""
    async with stack.connect() as sessions:
        active, values = await busy(stack, sessions, steps=5)
        held = {"latency": HELD} if after == "joined" else {"seconds": HELD}
        steered = spec(steps=1, tool="none", text="steered", **held)
        handle = await submit(sessions, steered, session=active.session, policy="steer")
        stack.release(values)
        await until(stack, steered, "model" if after == "joined" else "tool")
        workflow = sessions.client.get_workflow_handle(active.accepted.key.workflow_id)
        await workflow.terminate("by hand")
        await sessions.resume(active.session, wait_s=20)  # starts another execution
        stack.release(steered)
        assert await finish(sessions, active) == "completed"
        assert (await handle.result()).response.text == "steered"
    facts = await check_session(stack, active.session, storing_s=2)
    assert users(facts) == [active.id, active.id]


async def test_one_key_is_one_input_whatever_its_policy(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A second submit with the same key is answered from the row, and does nothing to the active run."""
    async with stack.connect() as sessions:
        active, _ = await busy(stack, sessions)
        values, key = spec(steps=0), uuid.uuid4().hex
        first = await submit(sessions, values, session=active.session, key=key)
        for policy in ("reject", "interrupt", "rollback", "steer", "enqueue"):
            again = await submit(sessions, values, session=active.session, key=key, policy=policy)
            assert (again.accepted.repeated, again.id, again.accepted.action) == (True, first.id, "queued")
        assert (await active.status()).status == "running"
        await sessions.cancel_session(active.session)
