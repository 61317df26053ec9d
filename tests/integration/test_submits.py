"""Many inputs to one session at once, from everywhere: each is run once, and all of them in one order."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.options import RunOptions
from tests.integration.api_server import ApiProcess, checked
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, settle_waits, spec
from tests.scale import scaled

SEED = 33
REPEATS = 3


@pytest.fixture(scope="module")
def apis(stack: Stack, steady_worker: WorkerProcess) -> Iterator[list[ApiProcess]]:
    """Two servers that share nothing but the database."""
    both = [ApiProcess(stack), ApiProcess(stack)]
    yield [api.wait_ready() for api in both]
    for api in both:
        api.kill()


async def _over_http(client: httpx.AsyncClient, session: str, text: str, key: str) -> tuple[str, int]:
    answer = await client.post(f"/sessions/{session}/runs", json={"input": text}, headers={"Idempotency-Key": key})
    body = checked(answer, answer.status_code if answer.is_success else 202)
    return body["run"], body["ordinal"]


async def _by_library(sessions: Sessions, session: str, text: str, key: str) -> tuple[str, int]:
    handle = await sessions.submit("actor", text, session=session, key=key)
    return handle.id, handle.accepted.ordinal


async def _parked(sessions: Sessions) -> RunHandle:
    """A run that waits for a client's tool, so that nothing that comes is taken at once."""
    script: list[Any] = [[{"tool": "pick_colour"}], "thanks"]
    options = RunOptions(client_tools=[{"name": "pick_colour"}])
    handle = await sessions.submit("actor", json.dumps(spec(script=script)), options=options)
    await eventually(lambda: sessions.waits(handle.session), what="the wait")
    return handle


async def test_l01_l02_s33_concurrent_submits_are_each_taken_once_in_one_order(
    stack: Stack, apis: list[ApiProcess]
) -> None:
    """L01, L02, S33: 200 inputs, each with its key three times, over two servers and the library, while a run waits for a tool.

    Each key is one run, whoever answered; each run is begun once, in the order of its place; its model is asked once.
    """
    chance = random.Random(SEED)
    count = max(24, scaled(200))
    given = {uuid.uuid4().hex: spec(script=["done"]) for _ in range(count)}
    async with stack.connect() as sessions, apis[0].client() as one, apis[1].client() as other:
        opened = await _parked(sessions)
        tries = [key for key in given for _ in range(REPEATS)]
        chance.shuffle(tries)

        async def submit(key: str) -> tuple[str, tuple[str, int]]:
            text, door = json.dumps(given[key]), chance.randrange(3)
            if door == 2:
                return key, await _by_library(sessions, opened.session, text, key)
            return key, await _over_http((one, other)[door], opened.session, text, key)

        answers = await asyncio.gather(*(submit(key) for key in tries))
        assert len(set(answers)) == count, "a key has one answer, whoever gives it"
        places = {place for _, (_, place) in answers}
        assert places == set(range(opened.accepted.ordinal + 1, opened.accepted.ordinal + count + 1))
        await settle_waits(sessions, opened.session, {"result": "blue"})
        last = max((answer for _, answer in answers), key=lambda answer: answer[1])
        assert await finish(sessions, await sessions.run(last[0]), seconds=300) == "completed"
    facts = await check_session(stack, opened.session)
    started = [int(str(event.data["input"])) for event in facts.events if event.type == "run.started"]
    assert started == sorted({opened.accepted.ordinal, *places})
    order = dict(sorted((place, key) for key, (_, place) in answers)).values()
    said = [item.message.text for item in facts.messages if item.message.type == "user"][1:]
    assert said == [json.dumps(given[key]) for key in order]
    assert [len(stack.entries(values["name"], "model")) for values in given.values()] == [1] * count
