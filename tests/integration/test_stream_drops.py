"""Clients that vanish in the middle of a stream."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlsplit

from tests.integration.api_server import ApiProcess, checked
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.scale import scaled

AT_ONCE = 8
IDLE_IN_TRANSACTION = "select count(*) from pg_stat_activity where state like 'idle in transaction%'"


async def open_and_drop(url: str) -> str:
    """Hand in an input in mode stream, and break the connection off once text comes; the session."""
    where = urlsplit(url)
    body = json.dumps({"agent": "talker", "input": "talk", "mode": "stream", "options": {"params": {"words": 30}}})
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = f"POST /api/runs HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    told = (await reader.readuntil(b"text_delta")).decode()
    writer.transport.abort()
    session = re.search(r'"session":"([0-9a-f-]{36})"', told)
    assert session, told
    return session[1]


async def test_l17_sockets_that_drop_mid_stream(stack: Stack, steady_worker: WorkerProcess) -> None:
    """100 at full scale: no session is lost, each run ends, nobody is followed and no connection is kept for nobody."""
    api = ApiProcess(stack).wait_ready()
    try:
        sessions: list[str] = []
        drops = max(AT_ONCE, scaled(100))
        while len(sessions) < drops:
            share = min(AT_ONCE, drops - len(sessions))
            sessions += await asyncio.gather(*(open_and_drop(api.url) for _ in range(share)))
        async with api.client() as client:

            async def is_clean() -> bool:
                return "perdure_open_streams 0.0" in (await client.get(f"{api.url}/metrics")).text

            await eventually(is_clean, what="no stream")
            answers = await asyncio.gather(*(client.get(f"/sessions/{session}") for session in sessions * 3))
            assert {answer.status_code for answer in answers} == {200}

            async def all_ended() -> bool:
                shown: list[dict[str, Any]] = [checked(await client.get(f"/sessions/{one}")) for one in sessions]
                return all(one["status"] == "idle" and one["run_count"] == 1 for one in shown)

            await eventually(all_ended, what="the runs' ends")
    finally:
        api.kill()
    async with stack.connect() as connected, connected.database.driver() as connection:

        async def none_is_held() -> bool:
            return await connection.fetchval(IDLE_IN_TRANSACTION) == 0

        await eventually(none_is_held, what="no transaction left open")
    for session in sessions:
        facts = await check_session(stack, session)
        assert set(facts.runs.values()) == {"completed"}
