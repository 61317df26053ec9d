"""Tasks that are HTTP calls, run by workers that are killed, and by sessions that are ended, while the server is silent."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.runtime.sessions import Sessions
from perdure.runtime.stage_action import StageAction
from perdure.uaip.action import Action, ActionKind
from tests.clients.vendor_server import Reply, VendorServer, json_reply
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_callers import CALLER, SERVER
from tests.scale import allowed_s

APP = "tests.integration.stage_callers:app"
SILENT = Reply(200, {}, [600.0])


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    async with VendorServer() as running:
        yield running


def worker(stack: Stack, server: VendorServer) -> WorkerProcess:
    return WorkerProcess(stack, APP, **{SERVER: server.url}).wait_ready()


def call(task: str, **arguments: Any) -> Action:
    return Action(ActionKind.METHOD_CALL, task, arguments=arguments)


async def hand_in(sessions: Sessions, action: Action) -> StageAction:
    """An action of a session of its own."""
    session = await sessions.stages.initialize(CALLER, key=uuid.uuid4().hex)
    return await sessions.stages.submit(session.key.session, action)


async def reply_to(handed: StageAction) -> dict[str, Any]:
    async def is_settled() -> bool:
        return (await handed.reply()).body["status"] != "running"

    await eventually(is_settled, what="the action settled")
    return (await handed.reply()).body


@pytest.mark.parametrize(("task", "calls"), [("order", 2), ("charge", 1)])
async def test_a_call_whose_worker_died(stack: Stack, server: VendorServer, task: str, calls: int) -> None:
    """One that may be made twice is, with the same key; of any other the client is told that nobody knows."""
    server.replies(SILENT, json_reply({"order": 7}))
    first = worker(stack, server)
    async with stack.connect() as sessions:
        handed = await hand_in(sessions, call(task, amount=20))
        await server.asked()
        first.kill()
        second = worker(stack, server)
        try:
            reply = await reply_to(handed)
            state = await sessions.stages.state(handed.row.key.session)
        finally:
            second.kill()
    assert [request.json() for request in server.received] == [{"amount": 20}] * calls
    assert {request.headers["idempotency-key"] for request in server.received} == {handed.row.id}
    if task == "order":
        assert (reply["result"], state) == ({"order": 7}, {"order": {"order": 7}})
    else:
        assert (reply["error"]["type"], state) == ("OutcomeUnknown", {})


async def test_a_call_is_tried_as_often_as_it_says(stack: Stack, server: VendorServer) -> None:
    """Where another try may help; an ended session hangs up on a server that is silent."""
    only = worker(stack, server)
    try:
        async with stack.connect() as sessions:
            server.replies(json_reply({}, 503), json_reply({}, 429), json_reply("here"))
            assert (await reply_to(await hand_in(sessions, call("ask"))))["result"] == "here"
            server.replies(json_reply({"reason": "no"}, 404))
            refused = await reply_to(await hand_in(sessions, call("ask")))
            assert (refused["error"]["type"], len(server.received)) == ("HTTPClientError", 4)
            server.replies(SILENT)
            handed = await hand_in(sessions, call("ask"))
            await eventually(lambda: _asked(server, 5), what="the call")
            begun = time.monotonic()
            await sessions.stages.terminate(handed.row.key.session)
            await server.hung_up()
            assert time.monotonic() - begun < allowed_s(2)
    finally:
        only.kill()


async def _asked(server: VendorServer, count: int) -> bool:
    return len(server.received) >= count
