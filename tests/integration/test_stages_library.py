"""Stage sessions as a program uses them, by `connect()`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from perdure.errors import InvalidInput, UnknownAction
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.stages import Stages
from perdure.uaip.action import Action, ActionKind
from perdure.upp.json_value import JSONValue
from tests.integration.door_stages import DESK, ODD
from tests.integration.stack import Stack
from tests.integration.stage_door import desk_worker, times_begun, until_begun

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[None]:
    """One that no test kills."""
    with desk_worker(stack):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stages(stack: Stack, worker: None) -> AsyncGenerator[Stages]:
    async with stack.connect() as sessions:
        yield sessions.stages


def call(task: str, **arguments: JSONValue) -> Action:
    """A task's call."""
    return Action(ActionKind.METHOD_CALL, task, arguments=arguments)


async def test_a_program_opens_acts_and_follows(stages: Stages) -> None:
    """A session may begin with values; its events come in order, live."""
    opened = await stages.initialize(DESK, values={"count": 41})
    session = opened.key.session

    async def settled() -> list[str]:
        types: list[str] = []
        async with aclosing(stages.events(session)) as events:
            async for event in events:
                types.append(event.type)
                if event.type == "stage.action_settled":
                    break
        return types

    following = asyncio.create_task(settled())
    reply = await stages.execute(session, call("count"), workflow=DESK)
    assert (reply.status, reply.body["result"]) == (200, 42)
    assert (await following)[0] == "stage.opened"
    assert await stages.state(session) == {"count": 42}
    (row,) = await stages.history(session)
    assert (await (await stages.action(session, row.id)).reply()) == reply


async def test_an_action_is_waited_for_so_long_and_no_longer(stages: Stages, tmp_path: Path) -> None:
    """Its handle gives the result later, as its key does."""
    session, gate, key = (await stages.initialize(DESK)).key.session, tmp_path / "gate", uuid.uuid4().hex
    hold = call("hold", gate=str(gate))
    first = await stages.execute(session, hold, key=key, wait_s=0.1)
    assert first.body["status"] == "running"
    await until_begun(gate)
    again = await stages.submit(session, hold, key=key)
    assert again.repeated
    waiting = asyncio.create_task(again.done())
    gate.touch()
    await waiting
    done = await again.reply()
    assert (done.body["result"], done.body["action_id"]) == ("let go", first.body["action_id"])
    assert await stages.execute(session, hold, key=key) == done
    assert times_begun(gate) == 1


async def test_what_is_not_there_is_said(stages: Stages) -> None:
    """In UAIP's words where it is UAIP's."""
    session = (await stages.initialize(DESK)).key.session
    for refused, reason in (
        (stages.initialize("nobody's"), "workflow_not_found"),
        (stages.execute(session, call("count"), workflow=ODD), "session_not_found"),
        (stages.execute(session, call("count"), workflow="nobody's"), "workflow_not_found"),
        (stages.execute(str(uuid.uuid4()), call("count")), "session_not_found"),
        (stages.state("no id"), "session_not_found"),
    ):
        with pytest.raises(RequestRefused) as raised:
            await refused
        assert raised.value.refusal.reason == reason
    with pytest.raises(UnknownAction, match="has no action"):
        await stages.action(session, "no id")
    with pytest.raises(InvalidInput, match="who answers"):
        await stages.answer(session, str(uuid.uuid4()), {"approved": True}, by=" ")
    assert await stages.history(session) == []
