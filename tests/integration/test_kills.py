"""SIGKILL at any moment: the run reaches one terminal state and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.store.waits import open_waits
from perdure.testing.crash import CRASH_POINTS
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from tests.integration.agents import HELD
from tests.integration.facts import check_session, count_activities
from tests.integration.stack import Stack, WorkerProcess, eventually

CLAIM_POINTS = ["call_tool.claiming", "call_tool.claimed"]
RUN_POINTS = [
    point
    for point in CRASH_POINTS
    if point.partition(".")[0] in ("begin_run", "generate", "call_tool", "end_run") and point not in CLAIM_POINTS
]
RECORD_POINTS = [point for point in CRASH_POINTS if point.startswith("record.")]
DELTA_POINTS = [point for point in CRASH_POINTS if point.startswith("deltas.")]
EFFECTS = ["none", "idempotent", "at_most_once", "once"]


@pytest.fixture(autouse=True)
def no_worker_left() -> Iterator[None]:
    """End the workers that a failed test has left: they would serve the tests that come after it."""
    before = len(WorkerProcess.started)
    yield
    for process in WorkerProcess.started[before:]:
        process.kill()


def spec(**values: Any) -> dict[str, Any]:
    """A spec with a name of its own."""
    return {"name": uuid.uuid4().hex, **values}


async def submit(sessions: Sessions, values: dict[str, Any], **options: Any) -> RunHandle:
    """Hand in the spec as the input."""
    return await sessions.submit("worker", json.dumps(values), **options)


async def settle_waits(sessions: Sessions, session: str, answer: dict[str, Any]) -> int:
    """Answer every open wait of a session."""
    waits = await open_waits(sessions.database, sessions.tenant, session)
    for wait in waits:
        await sessions.answer(wait.id, answer, by="test")
    return len(waits)


async def finish(
    sessions: Sessions, handle: RunHandle, answer: dict[str, Any] | None = None, *, seconds: float = 120
) -> str:
    """The terminal status; answers waits on the way."""
    answered = answer or {"outcome": "unknown"}

    async def ended() -> str | None:
        await settle_waits(sessions, handle.session, answered)
        status = (await handle.status()).status
        return status if status in ("completed", "failed", "cancelled") else None

    return await eventually(ended, seconds=seconds, what=f"the end of run {handle.id}")


@pytest.mark.parametrize("point", RUN_POINTS)
async def test_worker_dies_at_a_crash_point(stack: Stack, tmp_path: Path, point: str) -> None:
    """L15, L11: A worker that dies right there loses nothing; another goes on."""
    values = spec(steps=3, calls=2)
    mark = str(tmp_path / "crashed")
    first = WorkerProcess(stack, PERDURE_CRASH_AT=f"{point}", PERDURE_CRASH_ONCE=mark).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
            await _until_closed(sessions, handle)
        counts = await count_activities(sessions, handle.session)
    assert counts == {"perdure.generate": 4, "perdure.call_tool": 6}
    facts = await check_session(stack, handle.session, values["name"])
    assert len(facts.messages) == 8
    assert len(stack.entries(values["name"], "model")) <= 5


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("point", ["call_tool.running", "call_tool.ran", "call_tool.storing", "call_tool.stored"])
async def test_effect_classes_decide_after_a_crash(stack: Stack, tmp_path: Path, point: str, effect: str) -> None:
    """L33, L32: None and idempotent run again, at_most_once tells the model, once parks and asks; a stored result is kept."""
    values = spec(steps=1, calls=1, tool=effect)
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        async with first.replaced_when_dead():
            if effect == "once" and point != "call_tool.stored":
                await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
                assert (await handle.status()).status == "parked"
                await settle_waits(sessions, handle.session, {"outcome": "happened", "result": "seen by a person"})
            assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    ran = len(stack.entries(values["name"], "tool"))
    before = 0 if point == "call_tool.running" else 1
    again = effect in ("none", "idempotent") and point != "call_tool.stored"
    assert ran == before + (1 if again else 0)
    result = facts.messages[2].message.to_json()["results"]
    text = json.dumps(result)
    if point != "call_tool.stored" and effect == "at_most_once":
        assert "outcome of this call is not known" in text
    if point != "call_tool.stored" and effect == "once":
        assert "seen by a person" in text


@pytest.mark.parametrize("point", CLAIM_POINTS)
async def test_worker_dies_while_it_claims_a_once_call(stack: Stack, tmp_path: Path, point: str) -> None:
    """Before the claim is stored the call is known not to have run; after it, a person is asked."""
    values = spec(steps=1, calls=1, tool="once")
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        async with first.replaced_when_dead():
            assert await finish(sessions, handle, {"outcome": "not_run"}) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    assert len(stack.entries(values["name"], "tool")) == 1
    parked = [event.data["reason"] for event in facts.events if event.type == "run.parked"]
    assert parked == ([] if point == "call_tool.claiming" else ["outcome"])


@pytest.mark.parametrize("point", [f"{point}#{count}" for point in DELTA_POINTS for count in (1, 4)])
async def test_worker_dies_while_it_stores_deltas(stack: Stack, tmp_path: Path, point: str) -> None:
    """A viewer is told that the first try's text is void, and then gets the whole answer once."""
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        words = 100 if point.endswith("#4") else 20  # on a busy machine many words are one batch
        handle = await sessions.submit("talker", "talk", options=RunOptions(params={"words": words}))
        async with first.replaced_when_dead():
            assert await finish(sessions, handle) == "completed"
        turn = await handle.result()
    facts = await check_session(stack, handle.session)
    shown: list[str] = []
    for event in facts.events:
        if event.type == "message.reset":
            shown.clear()
        elif event.type == "text_delta":
            shown.append(cast("dict[str, str]", event.data["delta"])["text"])
    assert "".join(shown) == turn.response.text


async def test_a_restart_reads_no_checkpoint_row(stack: Stack) -> None:
    """With all checkpoint rows deleted while the worker is dead, the run ends all the same."""
    values = spec(steps=4, latency=0.1)
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)

        async def underway() -> bool:
            return len(stack.entries(values["name"], "model")) >= 3

        await eventually(underway)
        first.kill()
        async with sessions.database.driver() as connection:
            await connection.execute("delete from perdure.checkpoints where session_id = $1", handle.session)
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
        turn = await handle.result()
    assert turn.cycles == 5
    await check_session(stack, handle.session, values["name"])


@pytest.mark.parametrize("point", RECORD_POINTS)
async def test_worker_dies_while_it_pauses(stack: Stack, tmp_path: Path, point: str) -> None:
    """A pause that meets a crash is a pause all the same, and resumes."""
    values = spec(steps=2, latency=HELD)
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        await sessions.pause(handle.session, wait_s=0.1)
        async with first.replaced_when_dead():
            stack.release(values)
            await _until_event(handle, "run.parked")
            assert (await handle.status()).status == "parked"
            assert (await sessions.resume(handle.session, wait_s=60)).state == "resumed"
            assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session, values["name"])
    kinds = [event.type for event in facts.events]
    assert [kinds.count(kind) for kind in ("session.paused", "run.parked", "run.resumed")] == [1, 1, 1]


@pytest.mark.parametrize("moment", ["model", "tool"])
async def test_worker_killed_during_an_effect(stack: Stack, moment: str) -> None:
    """S09: SIGKILL in the middle of a model call or of a tool."""
    values = spec(steps=2, latency=HELD if moment == "model" else 0.0, seconds=HELD if moment == "tool" else 0.0)
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], moment)
        first.kill()
        stack.release(values)
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
    await check_session(stack, handle.session, values["name"])


async def test_worker_killed_while_a_run_is_paused(stack: Stack) -> None:
    """A paused run stays paused over a kill, and goes on when it is resumed."""
    values = spec(steps=2, latency=HELD)
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        assert (await sessions.pause(handle.session, wait_s=60)).state == "paused"
        stack.release(values)
        await _until_event(handle, "run.parked")
        first.kill()
        second = WorkerProcess(stack).wait_ready()
        try:
            bought = _answers_asked_for(stack, values)
            assert (await sessions.resume(handle.session, wait_s=60)).state == "resumed"
            assert await finish(sessions, handle) == "completed"
        finally:
            second.kill()
    assert bought == {0}
    assert _answers_asked_for(stack, values) == {0, 1, 2}
    await check_session(stack, handle.session, values["name"])


async def test_a_resume_that_meets_a_lost_parking_is_kept(stack: Stack, tmp_path: Path) -> None:
    """The worker dies right after it noted the parking, and the resume is there before the next one looks."""
    values = spec(steps=2, latency=HELD)
    environment = {"PERDURE_CRASH_AT": "record.stored#2", "PERDURE_CRASH_ONCE": str(tmp_path / "c")}
    first = WorkerProcess(stack, **environment).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        assert (await sessions.pause(handle.session, wait_s=60)).state == "paused"
        stack.release(values)
        await asyncio.to_thread(first.wait_dead)
        assert (await sessions.resume(handle.session, wait_s=0.1)).state == "recorded"
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "completed"
            again = await submit(sessions, spec(steps=0), session=handle.session)
            assert not again.accepted.paused
            assert await finish(sessions, again) == "completed"
        finally:
            second.kill()
    facts = await check_session(stack, handle.session, values["name"])
    kinds = [event.type for event in facts.events]
    assert [kinds.count(kind) for kind in ("session.paused", "session.resumed")] == [1, 1]


async def test_worker_killed_among_twenty_runs(stack: Stack) -> None:
    """SIGKILL with 20 runs in flight: each ends once, none is lost or doubled."""
    all_values = [spec(steps=4, calls=2, latency=0.1, seconds=0.1) for _ in range(20)]
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handles = [await submit(sessions, values) for values in all_values]

        async def halfway() -> bool:
            return sum(len(stack.entries(values["name"], "model")) for values in all_values) >= 40

        await eventually(halfway)
        first.kill()
        second = WorkerProcess(stack).wait_ready()
        try:
            statuses = await asyncio.gather(*(finish(sessions, handle) for handle in handles))
        finally:
            second.kill()
    assert statuses == ["completed"] * 20
    for handle, values in zip(handles, all_values, strict=True):
        await check_session(stack, handle.session, values["name"])
    bought = sum(len(stack.entries(values["name"], "model")) for values in all_values)
    assert bought <= 20 * 5 + 20


@pytest.mark.parametrize("servers", [("temporal",), ("postgres",), ("temporal", "postgres")])
async def test_servers_killed_under_runs(stack: Stack, servers: tuple[str, ...]) -> None:
    """S58: SIGKILL of Temporal, of PostgreSQL and of both, with runs in flight; both come back and the runs end."""
    all_values = [spec(steps=6, calls=2, latency=0.1, seconds=0.05) for _ in range(5)]
    worker = WorkerProcess(stack).wait_ready()
    try:
        async with stack.connect() as sessions:
            handles = [await submit(sessions, values) for values in all_values]

            async def halfway() -> bool:
                return sum(len(stack.entries(values["name"], "model")) for values in all_values) >= 10

            await eventually(halfway)
            for name in servers:
                stack.kill(name)
        async with stack.reconnect() as sessions:
            again = [await sessions.run(handle.id) for handle in handles]
            statuses = await asyncio.gather(*(finish(sessions, handle) for handle in again))
    finally:
        worker.kill()
    assert statuses == ["completed"] * 5
    storing_s = 30 if "postgres" in servers else 0.002  # an answer in hand is stored once the database is back
    for handle, values in zip(handles, all_values, strict=True):
        await check_session(stack, handle.session, values["name"], storing_s=storing_s)


async def test_no_worker_and_no_temporal_at_submit(stack: Stack) -> None:
    """Inputs handed in with no worker, and with Temporal just killed, are taken in order once both are there."""
    first, second = spec(steps=0), spec(steps=0)
    worker = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        opened = await submit(sessions, spec(steps=0))
        await opened.result()
    worker.kill()
    async with stack.connect() as sessions:
        early = await submit(sessions, first, session=opened.session)
        stack.kill("temporal")
        late = await submit(sessions, second, session=opened.session)
        assert [(await handle.status()).status for handle in (early, late)] == ["queued", "queued"]
    worker = WorkerProcess(stack).wait_ready()
    try:
        async with stack.reconnect() as sessions:
            for handle in (early, late):
                assert await finish(sessions, await sessions.run(handle.id)) == "completed"
    finally:
        worker.kill()
    facts = await check_session(stack, opened.session, first["name"], second["name"])
    assert len(facts.runs) == 3


async def test_everything_killed(stack: Stack) -> None:
    """Worker, Temporal and PostgreSQL die together; after the restart the run ends as if nothing had been."""
    values = spec(steps=4, calls=2, latency=0.1)
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        for name in ("temporal", "postgres"):
            stack.kill(name)
        first.kill()
    second = WorkerProcess(stack).wait_ready()
    try:
        async with stack.reconnect() as sessions:
            assert await finish(sessions, await sessions.run(handle.id)) == "completed"
    finally:
        second.kill()
    await check_session(stack, handle.session, values["name"])


def _answers_asked_for(stack: Stack, values: dict[str, Any]) -> set[int]:
    """Which answers a spec's model was asked for; for one again where the call was lost."""
    return {int(entry["number"]) for entry in stack.entries(values["name"], "model")}


async def _until_closed(sessions: Sessions, handle: RunHandle) -> None:
    """Wait for the execution's own end: what a lost workflow task had done last is done again before it."""
    key = SessionKey(sessions.tenant, handle.session)

    async def closed() -> bool:
        return not await is_open(sessions.client, key)

    await eventually(closed)


async def _until_event(handle: RunHandle, kind: str) -> None:
    async with asyncio.timeout(90):
        async for event in handle.events():
            if event.type == kind:
                return
