"""Sessions that come and go and sub-agents that finish, and how much memory a process takes for them."""

from __future__ import annotations

import asyncio
import json
import resource
import uuid
from pathlib import Path
from typing import Any

import httpx

from tests.integration.api_server import checked
from tests.integration.sub_agents import ask

APP = "tests.integration.sub_agents:app"
AT_ONCE = 10
SMALL = {"PERDURE_MAX_CACHED_WORKFLOWS": "10", "PERDURE_MESSAGE_CACHE_BYTES": "65536"}
"""So that what is kept on purpose is full after a few sessions."""

MAY_GROW = 1.05
STILL_WARMING_BYTES = 8 * 1024 * 1024
"""Of a short run: the pools and arenas of a process go on filling for its first hundreds of requests."""


def is_flat(was: int, now: int) -> bool:
    """Whether a process that had so many bytes has about as many now."""
    return now <= was * MAY_GROW + STILL_WARMING_BYTES


def resident(pid: int) -> int:
    """Bytes of a process's memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


async def run_and_delete(client: httpx.AsyncClient, *script: Any) -> None:
    """A session with one run, which is deleted when that has ended."""
    given = json.dumps({"name": uuid.uuid4().hex, "script": [*script, "done"]})
    run = checked(await client.post("/runs", json={"agent": "chief", "input": given, "mode": "wait", "wait_s": 600}))
    assert run["status"] == "completed", run
    deleted = await client.delete(f"/sessions/{run['session']}", params={"force": "true"})
    assert deleted.status_code == 204, deleted.text


async def many(client: httpx.AsyncClient, sessions: int, children: int) -> None:
    """So many sessions, and one whose run has so many sub-agents, ten a step."""
    for start in range(0, sessions, AT_ONCE):
        await asyncio.gather(*(run_and_delete(client) for _ in range(min(AT_ONCE, sessions - start))))
    name = uuid.uuid4().hex
    steps = [
        [ask("scout", name, "yes") for _ in range(min(AT_ONCE, children - n))] for n in range(0, children, AT_ONCE)
    ]
    await run_and_delete(client, *steps)
