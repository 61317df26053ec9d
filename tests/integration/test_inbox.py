"""The inbox: each input is taken once, in order, whoever dies between commit and signal."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from typing import Any

import pytest

from perdure.errors import InvalidInput, KeyConflict, UnknownAgent, UnknownSession
from perdure.runtime.sessions import RunHandle
from perdure.store.runs import list_runs
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import UserMessage
from tests.integration.facts import check_session
from tests.integration.stack import ROOT, Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled

CLIENT = """
import asyncio, sys
from perdure import connect
async def main():
    async with connect() as sessions:
        await sessions.submit("worker", sys.argv[1], session=sys.argv[2] or None, key=sys.argv[3])
asyncio.run(main())
"""


async def _client_dies_after_its_commit(stack: Stack, values: dict[str, Any], session: str, key: str) -> None:
    environment = {**stack.addressing, "PERDURE_CRASH_AT": "submit.stored", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CLIENT, json.dumps(values), session, key]
    died = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, timeout=120)
    assert died.returncode == -9, died.stderr.decode()


async def test_client_killed_between_commit_and_signal(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The row is the acknowledgement: nobody signalled, and the input is run."""
    values, key = spec(steps=1), uuid.uuid4().hex
    async with stack.connect() as sessions:
        opened = await submit(sessions, spec(steps=0))
        await opened.result()
        await _client_dies_after_its_commit(stack, values, opened.session, key)
        row = (await list_runs(sessions.database, SessionKey("default", opened.session)))[-1]
        assert await finish(sessions, await sessions.run(row.id)) == "completed", "nobody but the sweep wakes it"
        again = await submit(sessions, values, session=opened.session, key=key)
        assert again.accepted.repeated
        assert again.id == row.id
    assert {entry["number"] for entry in stack.entries(values["name"], "model")} == {0, 1}
    await check_session(stack, opened.session, values["name"])


async def test_two_submits_at_once_with_one_key_are_one_run(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The same key at the same moment: one run, on a new session and on a known one."""
    values, key = spec(steps=0), uuid.uuid4().hex
    async with stack.connect() as sessions:
        handles = await asyncio.gather(*(submit(sessions, values, key=key) for _ in range(10)))
        assert len({(handle.session, handle.id) for handle in handles}) == 1
        session = handles[0].session
        await handles[0].result()
        more = await asyncio.gather(*(submit(sessions, values, key="again", session=session) for _ in range(10)))
        assert len({handle.id for handle in more}) == 1
        await more[0].result()
    facts = await check_session(stack, session)
    assert len(facts.runs) == 2


async def test_one_key_with_another_body_is_a_conflict(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A key belongs to its first input; options are part of it."""
    values, key = spec(steps=0), uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await submit(sessions, values, key=key)
        with pytest.raises(KeyConflict):
            await submit(sessions, spec(steps=0), key=key)
        with pytest.raises(KeyConflict):
            await submit(sessions, values, key=key, options=RunOptions(instructions="other"))
        await handle.result()


async def test_a_key_answers_the_first_outcome_after_completion(stack: Stack, steady_worker: WorkerProcess) -> None:
    """After completion the same key gives the same run and turn, and buys nothing."""
    values, key = spec(steps=1), uuid.uuid4().hex
    async with stack.connect() as sessions:
        first = await submit(sessions, values, key=key)
        turn = await first.result()
        bought = len(stack.entries(values["name"], "model"))
        again = await submit(sessions, values, key=key)
        assert again.accepted.status == "completed"
        assert await again.result() == turn
    assert len(stack.entries(values["name"], "model")) == bought


async def test_different_keys_happen_in_order(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Many inputs at once on one session: all run, in the order of their places."""
    count = max(10, scaled(200))
    async with stack.connect() as sessions:
        opened = await submit(sessions, spec(steps=0))
        handles = await asyncio.gather(*(submit(sessions, spec(steps=0), session=opened.session) for _ in range(count)))
        for handle in handles:
            assert await finish(sessions, handle, seconds=120) == "completed"
        rows = await list_runs(sessions.database, SessionKey("default", opened.session))
    assert [row.ordinal for row in rows] == list(range(1, count + 2))
    facts = await check_session(stack, opened.session)
    started = [event.data["input"] for event in facts.events if event.type == "run.started"]
    assert started == list(range(1, count + 2))


async def test_a_wake_at_the_closing_edge(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S34: An input that comes just as the execution closes is taken, every time."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        for _ in range(max(25, scaled(500))):
            async for event in handle.events():
                if event.type == "run.completed":
                    break
            handle = await submit(sessions, spec(steps=0), session=handle.session)
        assert await finish(sessions, handle) == "completed"
    await check_session(stack, handle.session)


async def test_ids_and_names_that_cannot_be_used(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Bad ids, unknown agents and sessions are refused with a word that names them; nothing is stored."""
    async with stack.connect() as sessions:
        for bad in ("", "x" * 300, "🚀", "a\x00b", "not-a-uuid", str(uuid.uuid1())):
            with pytest.raises(InvalidInput, match="session id"):
                await sessions.submit("worker", "hi", session=bad)
        with pytest.raises(UnknownSession, match="no session"):
            await sessions.submit("worker", "hi", session=str(uuid.uuid4()))
        with pytest.raises(UnknownAgent, match="worker"):
            await sessions.submit("nobody", "hi")
        for key in ("", "k" * 201, "a\x00b"):
            with pytest.raises(InvalidInput, match="key"):
                await sessions.submit("worker", "hi", key=key)
        opened = await submit(sessions, spec(steps=0))
        with pytest.raises(UnknownSession, match="belongs to agent"):
            await sessions.submit("talker", "hi", session=opened.session)
        await opened.result()


@pytest.mark.parametrize("text", ["\x00", "\ud800 alone", "𐍈 four bytes", "é" * 200_000])
async def test_any_text_is_kept_as_it_is(stack: Stack, steady_worker: WorkerProcess, text: str) -> None:
    """NUL, lone surrogates, 4-byte characters and large bodies come back unchanged, input and answer alike."""
    values = spec(steps=0, text=text)
    message = UserMessage(json.dumps(values), metadata={"note": {"text": text}})
    async with stack.connect() as sessions:
        handle = await sessions.submit("worker", message)
        turn = await handle.result()
    assert turn.response.text == text
    assert (turn.messages[0].metadata or {})["note"] == {"text": text}


async def test_one_message_object_may_be_sent_twice(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Rows are keyed by ids of ours, so a message's own id may come again."""
    message = UserMessage(json.dumps(spec(steps=0)))
    async with stack.connect() as sessions:
        first = await sessions.submit("worker", message)
        await first.result()
        second: RunHandle = await sessions.submit("worker", message, session=first.session)
        turn = await second.result()
    assert turn.messages[0].id == message.id
