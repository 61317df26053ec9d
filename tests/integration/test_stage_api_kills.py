"""SIGKILL of the API between what is stored and what is told: nothing of a stage session is lost, repeated or left over."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from perdure.uap.session_key import SessionKey
from tests.integration.api_server import ApiProcess, code_of
from tests.integration.facts import until_forgotten
from tests.integration.stack import Stack, eventually
from tests.integration.stage_door import Door, desk_worker, detail_of, door_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

SESSIONS = "/api/stage-sessions"


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    """A worker and a server that no test kills."""
    with desk_worker(stack):
        process = ApiProcess(stack).wait_ready()
        yield process
        process.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(api: ApiProcess) -> AsyncGenerator[Door]:
    async with door_of(api) as made:
        yield made


@asynccontextmanager
async def dying(stack: Stack, point: str) -> AsyncGenerator[Door]:
    """A server that kills itself at a crash point, which it must have come to by the end of the block."""
    process = ApiProcess(stack, PERDURE_CRASH_AT=point)
    await asyncio.to_thread(process.wait_ready)
    async with door_of(process) as made:
        yield made
    assert await asyncio.to_thread(process.wait_dead) == -9


async def test_an_action_is_done_whose_session_nobody_woke(stack: Stack, door: Door) -> None:
    """It was stored; without its being asked for again it is done, once, and its key has the result."""
    session, key = await door.initialize(), uuid.uuid4().hex
    async with dying(stack, "action.stored") as lost:
        with pytest.raises(httpx.TransportError):
            await lost.call(session, "count", key=key)

    async def counted() -> bool:
        return (await door.shown(session))["state"] == {"count": 1}

    await eventually(counted, what="the action")
    assert (await door.call(session, "count", key=key))["result"] == 1
    assert (await door.shown(session))["actions"] == 1


async def test_an_answer_holds_that_nobody_was_told_of(stack: Stack, door: Door) -> None:
    """The approved task runs once; the answer is not taken twice."""
    session, key = await door.initialize(), uuid.uuid4().hex
    asked = await door.call(session, "spend", amount=2, key=key)
    path = f"{SESSIONS}/{session}/actions/{asked['action_id']}/answer"
    async with dying(stack, "stage_answer.stored") as lost:
        with pytest.raises(httpx.TransportError):
            await lost.http.post(path, json={"answer": {"approved": True}})
    done = await door.call(session, "spend", amount=2, key=key)
    assert (done["status"], done["result"]) == ("ok", 2)
    assert (await door.shown(session))["state"] == {"spent": 2}
    assert code_of(await door.http.post(path, json={"answer": {"approved": True}}), 409) == "wait_answered"


@pytest.mark.parametrize("point", ["stage_delete.ended", "stage_delete.emptied"])
async def test_a_deletion_that_was_cut_off_is_finished_by_the_next(stack: Stack, door: Door, point: str) -> None:
    """Whatever is left of it: rows, or executions."""
    session = await door.initialize()
    await door.call(session, "count")
    path = f"{SESSIONS}/{session}"
    async with dying(stack, point) as lost:
        with pytest.raises(httpx.TransportError):
            await lost.http.delete(path)
    again = await door.http.delete(path)
    assert again.status_code == (204 if point == "stage_delete.ended" else 404)
    assert detail_of(await door.execute(session, "handshake"), 404) == "Session not found"
    async with stack.connect() as sessions:
        await until_forgotten(sessions, SessionKey(sessions.tenant, session).stage_workflow_id)
