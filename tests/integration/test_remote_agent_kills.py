"""Processes of both servers die while an agent of one asks an agent of the other: it is asked once, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.runtime.sessions import Sessions
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.uamp_agents import gate
from tests.integration.api_server import ApiProcess
from tests.integration.remote_servers import (
    TOOLS,
    TwoServers,
    ask,
    check_facts,
    new_text,
    open_asks,
    submit,
    two_servers,
)
from tests.integration.stack import Stack, eventually
from tests.integration.waiting import results

pytestmark = pytest.mark.asyncio(loop_scope="module")

POINTS = [
    "remote.asking", "remote.asked", "remote.signed", "remote.kept", "remote.delivered", "remote.frames_kept",
    "remote.answering", "remote.answered",
]  # fmt: skip
"""Before and after each write of an ask, and after it was sent."""


FAR: list[ApiProcess] = []
"""The API of the second server."""


@pytest.fixture(scope="module")
def servers(stack: Stack) -> Iterator[TwoServers]:
    """Two servers of processes. The first has a worker in each test, and no API: the second has its agent's key in a file."""
    with two_servers(stack) as both:
        key = _published_key(both.near)
        keys = both.far.settings.uamp_keys
        assert keys is not None
        keys.write_text(json.dumps({**json.loads(keys.read_text()), both.near.did_of("asker"): {"keys": [key]}}))
        both.near.stop_api()
        both.near.worker.kill()
        both.far.stop_api()
        FAR.append(both.far.new_api_here().wait_ready())
        yield both
        FAR.pop().kill()


def _published_key(server: EnvelopeServer) -> dict[str, Any]:
    """The key of the asking agent, as its DID document has it."""
    trust = server.certificates.trust()
    with httpx.Client(base_url=server.url, verify=trust, http1=False, http2=True, timeout=30) as http:
        (method,) = http.get("/agents/asker/did.json").raise_for_status().json()["verificationMethod"]
    return {**method["publicKeyJwk"], "kid": method["id"]}


def plan(text: str) -> list[dict[str, Any]]:
    """The other agent works, says something, waits at a gate, and says the rest."""
    return [
        {"calls": [{"tool": "weather", "arguments": {"city": text}}]},
        {"say": [f"{text} " + "word " * 50, gate(text), "last"]},
    ]


def said(text: str) -> str:
    """What it says."""
    return f"{text} " + "word " * 50 + "last"


async def until_frames(sessions: Sessions, count: int = 1) -> None:
    """Return once so many frames of an ask are kept."""

    async def kept() -> bool:
        return any(row["next_seq"] >= count for row in await open_asks(sessions.database))

    await eventually(kept, what="frames")


@pytest.mark.parametrize("point", POINTS)
async def test_a_process_that_follows_an_ask_dies(servers: TwoServers, tmp_path: Path, point: str) -> None:
    """Another goes on where it was: the same envelope, the same stream, one answer."""
    text = new_text()
    servers.far.open_gate(text)
    dying = servers.new_asker(PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_h2", plan(text)))
        await asyncio.to_thread(dying.wait_dead)
        other = servers.new_asker().wait_ready()
        try:
            turn = await handle.result()
        finally:
            other.kill()
        await check_facts(sessions, handle)
        assert await open_asks(sessions.database) == []
    assert results(turn) == [(said(text), False)]
    assert await servers.far_runs(text) == ["completed"]


@pytest.mark.parametrize("binding", TOOLS)
async def test_both_sides_die_in_the_middle(servers: TwoServers, binding: str) -> None:
    """All processes of both servers are killed while the other agent speaks; it runs once, and its words come once."""
    text = new_text()
    far = servers.far
    asker = servers.new_asker().wait_ready()
    try:
        async with servers.sessions() as sessions:
            handle = await submit(sessions, ask(TOOLS[binding], plan(text)))
            await until_frames(sessions)
            asker.kill()
            far.worker.kill()
            FAR.pop().kill()
            FAR.append(far.new_api_here())
            far.worker = far.new_worker().wait_ready()
            asker = servers.new_asker().wait_ready()
            far.open_gate(text)
            turn = await handle.result()
            await check_facts(sessions, handle)
            assert await open_asks(sessions.database) == []
        assert results(turn) == [(said(text), False)]
        assert await servers.far_runs(text) == ["completed"]
    finally:
        asker.kill()
