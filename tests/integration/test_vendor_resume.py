"""What vendors are sent when a run has been resumed or cancelled: what they would have been sent, and what they take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.clients.vendor_server import Reply, VendorServer, sse_reply
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.integration.vendor_agents:app"
FIXTURES = Path(__file__).parents[1] / "clients" / "fixtures"
VENDORS = {"claude": "anthropic", "chat": "openai_completions"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vendor() -> AsyncGenerator[VendorServer]:
    async with VendorServer() as server:
        yield server


def reply(agent: str, name: str) -> Reply:
    return sse_reply((FIXTURES / VENDORS[agent] / f"{name}.sse").read_bytes(), piece=37)


@asynccontextmanager
async def worker(stack: Stack, vendor: VendorServer, **environment: str) -> AsyncGenerator[WorkerProcess]:
    """A worker on this machine's vendor, dead at the end."""
    process = WorkerProcess(stack, APP, PERDURE_TEST_VENDOR=vendor.url, **environment)
    try:
        yield await asyncio.to_thread(process.wait_ready)
    finally:
        process.kill()


def check_anthropic(messages: list[dict[str, Any]]) -> int:
    """Assert that each call is answered at the head of the next message, once; returns how many calls there are."""
    calls = 0
    contents = [_blocks(message) for message in messages]
    for content, after in zip(contents, [*contents[1:], []], strict=True):
        asked = [str(block["id"]) for block in content if block["type"] == "tool_use"]
        assert [block.get("tool_use_id") for block in after[: len(asked)]] == asked
        calls += len(asked)
    return calls


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content: Any = message["content"]
    return [] if isinstance(content, str) else content


def check_openai(messages: list[dict[str, Any]]) -> int:
    """Assert that each call is answered by a message directly behind its own, once; returns how many calls there are."""
    calls = 0
    for place, message in enumerate(messages):
        given: list[dict[str, Any]] = message.get("tool_calls") or []
        asked = [str(call["id"]) for call in given]
        behind = messages[place + 1 : place + 1 + len(asked)]
        assert [item.get("tool_call_id") for item in behind] == asked
        calls += len(asked)
    assert calls == sum(message["role"] == "tool" for message in messages)
    return calls


RULES = {"claude": check_anthropic, "chat": check_openai}


@pytest.mark.parametrize("agent", VENDORS)
async def test_l11_l15_l43_a_vendor_is_sent_what_it_takes(
    stack: Stack, vendor: VendorServer, tmp_path: Path, agent: str
) -> None:
    """L11, L15, L43: the bytes after a worker's death are those of an undisturbed run.

    A call that a death and a cancel left open has its result directly behind it, once, in the next run's request.
    """
    before_second = {"PERDURE_CRASH_AT": "generate.begun#2", "PERDURE_CRASH_ONCE": str(tmp_path / "model")}
    with_tools = [reply(agent, "tools"), reply(agent, "text")]
    async with stack.connect() as sessions:
        vendor.received.clear()
        vendor.replies(*with_tools)
        async with worker(stack, vendor, **before_second) as first:
            handle = await sessions.submit(agent, "The weather?")
            await asyncio.to_thread(first.wait_dead)
        async with worker(stack, vendor):
            assert await finish(sessions, handle) == "completed"
            resumed = [item.body for item in vendor.received]
            vendor.received.clear()
            vendor.replies(*with_tools)
            calls = len((await (await sessions.submit(agent, "The weather?")).result()).tool_executions)
            assert [item.body for item in vendor.received] == resumed
        vendor.replies(*with_tools)
        in_tool = {"PERDURE_CRASH_AT": "call_tool.running", "PERDURE_CRASH_ONCE": str(tmp_path / "tool")}
        async with worker(stack, vendor, **in_tool) as third:
            handle = await sessions.submit(agent, "The weather?")
            await asyncio.to_thread(third.wait_dead)
        assert (await sessions.cancel(handle.session, wait_s=0.1)).state == "recorded"
        async with worker(stack, vendor):
            assert await finish(sessions, handle) == "cancelled"
            vendor.replies(reply(agent, "text"))
            again = await sessions.submit(agent, "And now?", session=handle.session)
            assert await finish(sessions, again) == "completed"
    assert RULES[agent](json.loads(vendor.received[-1].body)["messages"]) == calls > 0
    await check_session(stack, handle.session)
