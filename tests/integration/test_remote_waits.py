"""Calls that ask an agent elsewhere, where nobody follows them: what the run waits for, and who may answer in the agent's place."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from perdure.errors import InvalidInput, WaitAnswered
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.envelopes.key_finder import KeyFinder
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.envelopes.remote_follower import RemoteFollower
from perdure.runtime.envelopes.remote_parts import RemoteParts
from perdure.runtime.sessions import Sessions
from perdure.store.remote_asks import AskRow, ask_id, read_ask, read_frames
from perdure.store.remote_leases import (
    Lease,
    LeaseLost,
    answer_ask,
    claim_asks,
    keep_envelope,
    keep_frames,
    note_accepted,
    release_ask,
    renew_lease,
)
from perdure.store.sealing import seal_in
from perdure.store.tables import remote_asks
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.conformance.envelope_clock import AdjustableClock
from tests.integration.facts import check_session
from tests.integration.remote_servers import APP, ask, submit
from tests.integration.sealed_place import make_place
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.waiting import asked, results


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """A queue of its own, and a tenant for which no process follows asks."""
    return {"PERDURE_TASK_QUEUE": f"remote-{uuid.uuid4().hex}"}


@pytest.fixture(scope="module")
def asker(stack: Stack, environment: dict[str, str]) -> Iterator[WorkerProcess]:
    """A worker that serves the asking agents."""
    process = WorkerProcess(stack, APP, **environment).wait_ready()
    yield process
    process.kill()


@pytest.mark.usefixtures("asker")
async def test_a_person_answers_in_the_agents_place(stack: Stack) -> None:
    """The wait says whom it asks; what a person says is the result, once."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_nobody", "2 + 2?"))
        (wait,) = await asked(sessions, handle)
        assert (wait.kind, wait.asked["tool"], wait.asked["url"]) == ("remote", "ask_nobody", "https://localhost:1")
        assert wait.asked["arguments"] == {"message": "2 + 2?"}
        row = await read_ask(sessions.database, wait.key, ask_id(wait.message, wait.index))
        assert row is not None
        assert (row.wait, row.agent, row.arguments) == (wait.id, "asker", {"message": "2 + 2?"})
        with pytest.raises(InvalidInput, match="needs a 'result'"):
            await sessions.answer(wait.id, {"isError": True}, by="app")
        await sessions.answer(wait.id, {"result": "four"}, by="app")
        turn = await handle.result()
        with pytest.raises(WaitAnswered, match="app"):
            await sessions.answer(wait.id, {"result": "five"}, by="other")
    assert results(turn) == [("four", False)]
    assert turn.response.text == "told"
    await check_session(stack, handle.session)


@pytest.mark.usefixtures("asker")
async def test_an_approved_ask_waits_twice(stack: Stack) -> None:
    """First for the person's word, who may change the message, then for the answer."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_approved", "as the model wrote it"))
        (approval,) = await asked(sessions, handle)
        assert approval.kind == "approval"
        edit: JSONObject = {"message": "as a person wrote it"}
        await sessions.answer(approval.id, {"decision": "approve", "arguments": edit}, by="person")

        async def remote() -> Any:
            return next((wait for wait in await sessions.waits(handle.session) if wait.kind == "remote"), None)

        wait = await eventually(remote, what="the ask")
        row = await read_ask(sessions.database, wait.key, ask_id(wait.message, wait.index))
        assert row is not None
        assert row.arguments == edit
        await sessions.answer(wait.id, {"result": "yes"}, by="app")
        turn = await handle.result()
    (execution,) = turn.tool_executions
    assert (execution.result, execution.approved, execution.arguments) == ("yes", True, edit)
    await check_session(stack, handle.session)


@pytest.mark.usefixtures("asker")
async def test_a_rejected_ask_is_not_made(stack: Stack) -> None:
    """Nothing is sent of what a person has rejected, nor of a call that says nothing."""
    async with stack.connect() as sessions:
        handle = await submit(
            sessions, ask("ask_approved", "2 + 2?"), {"tool": "ask_h2", "arguments": {"message": " "}}
        )
        (approval,) = await asked(sessions, handle)
        await sessions.answer(approval.id, {"decision": "reject"}, by="person")
        turn = await handle.result()
        assert await read_ask(sessions.database, approval.key, ask_id(approval.message, approval.index)) is None
    assert [is_error for _, is_error in results(turn)] == [True, True]
    assert "needs a 'message'" in str(results(turn)[1][0])
    await check_session(stack, handle.session)


@pytest.mark.usefixtures("asker")
async def test_an_answer_is_waited_for_as_long_as_the_tool_says(stack: Stack) -> None:
    """Then the model is told that none came, and the run goes on."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_soon", "2 + 2?"))
        turn = await handle.result()
    ((result, is_error),) = results(turn)
    assert is_error
    assert "did not answer in time" in result
    await check_session(stack, handle.session)


@pytest.mark.usefixtures("asker")
async def test_a_cancelled_run_waits_no_more(stack: Stack) -> None:
    """Cancelling ends the waits of parallel asks, and the calls have results."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_nobody", "2 + 2?"), ask("ask_nobody", "again"))
        await asked(sessions, handle, 2)
        await sessions.cancel(handle.session, wait_s=60)
        assert (await handle.status()).status == "cancelled"
        assert await sessions.waits(handle.session) == []
    await check_session(stack, handle.session)


@pytest.mark.usefixtures("asker")
async def test_one_process_follows_an_ask_and_answers_once(stack: Stack) -> None:
    """Who has lost the lease writes nothing; frames and the answer are the holder's."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_nobody", "2 + 2?"))
        (wait,) = await asked(sessions, handle)
        database, tenant, now = sessions.database, sessions.tenant, datetime.now(UTC)
        ident, key = ask_id(wait.message, wait.index), wait.key
        later, day = now + timedelta(hours=1), timedelta(days=1)  # the worker's own lease is over then

        async def taken() -> AskRow | None:
            asks = await claim_asks(database, tenant, "first", now=later, lease=day, limit=1000)
            return next((row for row in asks if row.id == ident), None)

        row = await eventually(taken, what="the ask")
        assert await claim_asks(database, tenant, "second", now=later, lease=day, limit=1000) == []
        first, second = Lease(tenant, ident, "first"), Lease(tenant, ident, "second")
        assert await renew_lease(database, first, now=now, until=later + day)
        await keep_frames(database, first, key, [(0, b"zero"), (1, b"one")], run=row.run, events=[])
        for lost in (second, Lease(tenant, new_id(), "first")):
            with pytest.raises(LeaseLost):
                await renew_lease(database, lost, now=now, until=later)
            with pytest.raises(LeaseLost):
                await keep_frames(database, lost, key, [(2, b"two")], run=row.run, events=[])
            with pytest.raises(LeaseLost):
                await answer_ask(database, lost, row, {"result": "wrong", "isError": False}, by="lost")
        assert await read_frames(database, key, ident) == [b"zero", b"one"]
        assert [item.id for item in await sessions.waits(handle.session)] == [wait.id]
        assert await answer_ask(database, first, row, {"result": "four", "isError": False}, by="did:web:x.example")
        with pytest.raises(LeaseLost):
            await answer_ask(database, first, row, {"result": "five", "isError": False}, by="did:web:x.example")
        assert await read_frames(database, key, ident) == []
        turn = await handle.result()
        ended = await read_ask(database, key, ident)
    assert results(turn) == [("four", False)]
    assert ended is not None
    assert (ended.outcome, ended.next_seq) == ("answered", 2)
    await check_session(stack, handle.session)


@pytest.mark.usefixtures("asker")
async def test_a_process_that_was_stopped_does_not_follow_an_ask_twice(stack: Stack) -> None:
    """What it takes anew after its lease has run out is another's: its older task leaves the ask."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_nobody", "2 + 2?"))
        (wait,) = await asked(sessions, handle)
        ident, clock = ask_id(wait.message, wait.index), AdjustableClock()
        clock.advance(3600)  # the worker's own lease is over then
        follower = follower_in(sessions, clock)

        async def holder() -> str:
            async with sessions.database.driver() as connection:
                return await connection.fetchval("select lease_by from perdure.remote_asks where id = $1", ident)

        async def taken() -> bool:
            return bool(await follower.look()) and any(task.get_name() == name for task in asyncio.all_tasks())

        name = f"remote ask {ident}"
        await eventually(taken, what="the ask")
        before = await holder()

        async def taken_anew() -> bool:
            clock.advance(60)  # the process stands still for so long
            await follower.look()
            return await holder() not in (before, None)

        await eventually(taken_anew, what="another holder")
        with pytest.raises(LeaseLost):
            await renew_lease(
                sessions.database, Lease(sessions.tenant, ident, before), now=clock(), until=clock() + timedelta(days=1)
            )
        ours = [task for task in asyncio.all_tasks() if task.get_name().startswith("remote ask ")]
        for task in ours:
            task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)
        await sessions.answer(wait.id, {"result": "four"}, by="app")
        assert results(await handle.result()) == [("four", False)]


def follower_in(sessions: Sessions, clock: AdjustableClock) -> RemoteFollower:
    """A follower of this process, with a clock of its own."""
    database, tenant = sessions.database, sessions.tenant
    own, signers = OwnAgents(database, tenant, "localhost"), OwnKeys(database, tenant, clock=clock)
    keys = KeyFinder(
        configured=ConfiguredKeys(None, "PERDURE_UAMP_KEYS"),
        resolver=DIDResolver(),
        own=own,
        signers=signers,
        clock=clock,
    )
    return RemoteFollower(
        RemoteParts(
            database=database,
            client=sessions.client,
            announcer=sessions.announcer,
            tenant=tenant,
            own=own,
            signers=signers,
            keys=keys,
            clock=clock,
        )
    )


async def test_asks_are_followed_under_keys(stack: Stack) -> None:
    """What is asked, sent and in the way is sealed; the last is gone once the other side has the ask."""
    place = await make_place(stack)
    async with place.connect() as sessions:
        database, key = sessions.database, SessionKey(sessions.tenant, new_id())
        now, day = datetime.now(UTC), timedelta(days=1)
        clear = {
            "tenant_id": key.tenant, "id": new_id(), "session_id": key.session, "run_id": "run", "message_id": "message",
            "index": 0, "wait_id": "wait", "agent": "asker", "tool": "ask", "url": "https://localhost:1", "binding": "h2",
            "signed": True, "stream_id": "stream", "due_at": now, "made_at": now,
        }  # fmt: skip
        async with database.transaction(key) as connection:
            row = seal_in(connection, key).row(remote_asks, {**clear, "asked": b'{"message":"a private matter"}'})
            await connection.execute(insert(remote_asks).values(row))
        lease = Lease(key.tenant, str(clear["id"]), "me")
        (taken,) = await claim_asks(database, key.tenant, "me", now=now, lease=day, limit=10)
        assert taken.arguments == {"message": "a private matter"}
        problem: JSONObject = {"type": "ConnectionBroken", "message": "a private network"}
        await release_ask(database, lease, key, due_at=now, problem=problem)
        (taken,) = await claim_asks(database, key.tenant, "me", now=now, lease=day, limit=10)
        assert (taken.problem, taken.failures) == (problem, 1)
        await keep_envelope(database, lease, key, own="did:web:a", peer="did:web:b", envelope=b"a private letter")
        kept = await place.dump()
        await note_accepted(database, lease, key, stream_id="theirs")
        await keep_frames(database, lease, key, [(0, b"a private answer")], run="run", events=[])
        found = await read_ask(database, key, lease.ask)
        assert found is not None
        assert (found.accepted, found.problem, found.envelope) == (True, None, b"a private letter")
        assert (found.stream_id, found.failures, found.next_seq) == ("theirs", 0, 1)
        assert await read_frames(database, key, lease.ask) == [b"a private answer"]
        for stored in (kept, await place.dump()):
            assert stored["remote_asks"]
            assert all(word not in str(stored) for word in ("private", b"private".hex()))


@pytest.mark.parametrize("point", ["remote.asking", "remote.asked", "call_tool.claimed#2", "call_tool.storing"])
async def test_an_answer_in_hand_survives_its_worker(stack: Stack, tmp_path: Path, point: str) -> None:
    """A worker that dies before or after it has opened the ask, or with its answer in hand, takes nothing away."""
    queue = {"PERDURE_TASK_QUEUE": f"remote-{uuid.uuid4().hex}"}
    crash = {"PERDURE_CRASH_AT": point, "PERDURE_CRASH_ONCE": str(tmp_path / "crashed")}
    first = WorkerProcess(stack, APP, **queue, **crash).wait_ready()
    async with stack.connect() as sessions:
        handle = await submit(sessions, ask("ask_nobody", "2 + 2?"))
        if point.startswith("call_tool"):
            (wait,) = await asked(sessions, handle)
            await sessions.answer(wait.id, {"result": "four"}, by="app")
        await asyncio.to_thread(first.wait_dead)
        other = WorkerProcess(stack, APP, **queue).wait_ready()
        try:
            if not point.startswith("call_tool"):
                (wait,) = await asked(sessions, handle)
                await sessions.answer(wait.id, {"result": "four"}, by="app")
            async with asyncio.timeout(90):
                turn = await handle.result()
        finally:
            other.kill()
    assert results(turn) == [("four", False)]
    await check_session(stack, handle.session)
