"""Delegation as a UAMP client sees it: what agents think is progress of the call, and media is handed on by content id."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterator

import pytest

from tests.conformance.uamp_client import TRANSPORTS, Answer, line_to, new_id
from tests.conformance.uamp_server import UampServer, uamp_server
from tests.integration.delegating_agents import hand, told
from tests.integration.stack import Stack, WorkerProcess

APP = "tests.integration.delegating_agents:app"


@pytest.fixture(scope="module")
def server(stack: Stack) -> Iterator[UampServer]:
    """A server with a worker of its own for the agents that delegate."""
    with uamp_server(stack) as served:
        queue = {"PERDURE_TASK_QUEUE": f"delegate-{uuid.uuid4().hex}"}
        worker = WorkerProcess(stack, APP, **{**served.environment, **queue}).wait_ready()
        try:
            yield served
        finally:
            worker.kill()


def progress(answer: Answer) -> dict[str, str]:
    """What was told of each call while it ran."""
    found: dict[str, str] = {}
    for delta in answer.deltas:
        if delta["type"] == "tool_progress":
            told_of = delta["tool_progress"]
            found[told_of["call_id"]] = found.get(told_of["call_id"], "") + told_of["text"]
    return found


def thinking(name: str) -> str:
    """An input whose agent asks another, which thinks and asks a third, which thinks too."""
    inner = told(
        name, [hand("digger", told(name, "gold", thinks="dig! ", latency=0.5))], "dug", thinks="who? ", latency=0.5
    )
    return told(name, [hand("researcher", inner)], "done", latency=0.5)


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_what_agents_think_is_progress_of_the_call(server: UampServer, kind: str) -> None:
    """All that each thinks, under the call of the response; it is no text and no thinking of the response's.

    Between agents there is no order: their logs are read side by side.
    """
    async with server.line(kind) as line:
        talk = await line.open(agent="lead")
        answer = await talk.ask(thinking(uuid.uuid4().hex))
    assert answer.text == "done"
    (told_of,) = progress(answer).items()
    assert (told_of[0], sorted(told_of[1].split())) == ("call_0_0", ["dig!", "who?", "who?"])
    assert "thinking" not in answer.types


async def test_a_deployment_may_keep_it_to_itself(server: UampServer) -> None:
    quiet = server.new_api(DELEGATE_FORWARD_THINKING="0").wait_ready()
    try:
        async with line_to(quiet.url, "ws", server.tokens["ann"]) as line:
            answer = await (await line.open(agent="lead")).ask(thinking(uuid.uuid4().hex))
    finally:
        quiet.kill()
    assert (answer.text, progress(answer)) == ("done", {})


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_media_of_a_client_is_handed_on_by_its_content_id(server: UampServer, kind: str) -> None:
    """Small media that the thread holds, and large media that is stored; the agent is shown the same bytes."""
    small, large = b"small" * 10, bytes(range(256)) * 400
    name, ids = uuid.uuid4().hex, [new_id(), new_id()]
    async with server.line(kind) as line:
        talk = await line.open(agent="lead")
        await talk.text(told(name, [hand("fine_viewer", "what are they?", "$1", "$0")], "seen"))
        for data, ident in zip((small, large), ids, strict=True):
            await talk.send("input.image", image=base64.b64encode(data).decode(), format="png", content_id=ident)
        answer = await talk.ask()
    (result,) = [delta["tool_result"] for delta in answer.deltas if delta["type"] == "tool_result"]
    shown = [f"image {hashlib.sha256(data).hexdigest()[:8]}" for data in (large, small)]
    assert str(result["result"]) == "; ".join(["what are they?", *shown])
    assert answer.text == "seen"
