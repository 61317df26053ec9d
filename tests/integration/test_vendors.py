"""Durable runs on vendors' models: a real worker streams through each adapter from a vendor on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text

from perdure.errors import InvalidInput, LimitExceeded
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.options import RunOptions
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.stream import StreamEvent
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, lines_reply, sse_reply
from tests.integration.facts import check_session, read_facts
from tests.integration.stack import Stack, WorkerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIXTURES = Path(__file__).parents[1] / "clients" / "fixtures"
PRICES = {"openai": {"gpt-4.1": {"input": "2", "output": "8", "cache_read": "0.5"}}}


def stream(name: str, piece: int | None = 37) -> Reply:
    raw = (FIXTURES / name).read_bytes()
    return lines_reply(raw, piece=piece) if name.endswith("ndjson") else sse_reply(raw, piece=piece)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vendor() -> AsyncGenerator[VendorServer, None]:
    async with VendorServer() as server:
        yield server


@pytest.fixture(scope="module")
def worker(stack: Stack, vendor: VendorServer) -> Iterator[WorkerProcess]:
    process = WorkerProcess(
        stack,
        "tests.integration.vendor_agents:app",
        PERDURE_TEST_VENDOR=vendor.url,
        PERDURE_PRICES=json.dumps(PRICES),
    ).wait_ready()
    yield process
    process.kill()


async def deltas(sessions: Sessions, handle: RunHandle) -> list[str]:
    """The text that viewers saw, try by try."""
    tries = [""]
    async for event in handle.events():
        if event.type == "message.reset":
            tries.append("")
        if event.type == "text_delta":
            tries[-1] += StreamEvent.from_json({"type": event.type, **event.data}).delta.text or ""
    return tries


@pytest.mark.parametrize(
    ("agent", "fixture", "said"),
    [
        ("claude", "anthropic/text.sse", "Die Brücke ist 🌉 1.280 m lang.\n\nIt opened in 1937."),
        ("gpt", "openai_responses/text.sse", "Rayleigh scattering. — ☀ 蓝"),
        ("chat", "openai_completions/text.sse", "Hello! How can I assist you today?"),
        ("gemini", "google/text.sse", "AI learns patterns from data – and uses them. ✨"),
        ("llama", "ollama/text.ndjson", "The sky is naïvely 🌊"),
        ("router", "openai_completions/text.sse", "Hello! How can I assist you today?"),
    ],
)
async def test_each_vendor_streams_into_the_event_log(
    stack: Stack, worker: WorkerProcess, vendor: VendorServer, agent: str, fixture: str, said: str
) -> None:
    """S19: What viewers saw is what is stored, and the next run sends it back to the vendor."""
    vendor.received.clear()
    vendor.replies(stream(fixture))
    async with stack.connect() as sessions:
        handle = await sessions.submit(agent, "Hello ☀")
        turn = await handle.result()
        assert turn.response.text == said
        assert await deltas(sessions, handle) == [said]
        assert turn.usage.input_tokens > 0
        await (await sessions.submit(agent, "And then?", session=handle.session)).result()
    assert vendor.received[0].headers["x-tenant"] == "canary-header-8e35"
    sent = json.dumps(vendor.received[1].json(), ensure_ascii=False)
    for part in ("Be kind.", "Hello ☀", json.dumps(said, ensure_ascii=False)[1:-1], "And then?", "get_weather"):
        assert part in sent
    await check_session(stack, handle.session)


async def test_tools_run_between_two_answers_of_a_vendor(
    stack: Stack, worker: WorkerProcess, vendor: VendorServer
) -> None:
    vendor.received.clear()
    vendor.replies(stream("openai_completions/tools.sse"), stream("openai_completions/text.sse"))
    async with stack.connect() as sessions:
        turn = await (await sessions.submit("chat", "The weather?")).result()
    assert [item.result for item in turn.tool_executions] == [
        "sunny in San Francisco, USA",
        "sunny in Los Angeles, USA",
    ]
    told = [item for item in vendor.received[1].json()["messages"] if item["role"] == "tool"]
    assert [item["content"] for item in told] == ["sunny in San Francisco, USA", "sunny in Los Angeles, USA"]


async def test_what_passes_is_tried_again_and_told_to_viewers(
    stack: Stack, worker: WorkerProcess, vendor: VendorServer
) -> None:
    """Rate limit, overload and a cut stream, in one model call: one answer is stored, no text is shown twice."""
    whole = (FIXTURES / "anthropic/text.sse").read_bytes()
    vendor.received.clear()
    vendor.replies(
        json_reply(
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, 429, {"retry-after": "0"}
        ),
        json_reply({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, 529),
        sse_reply(whole[:700]).then(CUT),
        sse_reply(whole),
    )
    async with stack.connect() as sessions:
        handle = await sessions.submit("claude", "Hello")
        turn = await handle.result()
        seen = await deltas(sessions, handle)
        facts = await read_facts(sessions, handle.session)
    assert len(vendor.received) == 4
    assert seen[-1] == turn.response.text
    assert seen[-2] == "Die Brücke ist 🌉 "
    assert len(facts.messages) == 2
    await check_session(stack, handle.session)


async def test_what_does_not_pass_fails_the_run_at_once(
    stack: Stack, worker: WorkerProcess, vendor: VendorServer
) -> None:
    vendor.received.clear()
    vendor.replies(json_reply({"error": {"code": "insufficient_quota", "message": "check your plan"}}, 429))
    async with stack.connect() as sessions:
        with pytest.raises(UPPError) as raised:
            await (await sessions.submit("chat", "Hello")).result()
    assert (raised.value.code, raised.value.status_code, len(vendor.received)) == (ErrorCode.QUOTA_EXCEEDED, 429, 1)


async def test_a_run_costs_what_the_table_says(stack: Stack, worker: WorkerProcess, vendor: VendorServer) -> None:
    """1,117 tokens in, 1,024 of them from the cache, 10 out; the limit is met after the first step of two."""
    vendor.replies(stream("openai_completions/text.sse"))
    async with stack.connect() as sessions:
        turn = await (await sessions.submit("chat", "Hello", options=RunOptions(max_cost=Decimal(1)))).result()
        assert turn.usage.cost == Decimal("0.186") + Decimal("0.512") + Decimal("0.08")
        vendor.replies(stream("openai_completions/tools.sse"))
        limited = await sessions.submit("chat", "Hello", options=RunOptions(max_cost=Decimal("0.000001")))
        with pytest.raises(LimitExceeded, match=r"the run cost 0\.488, its limit is 0\.000001"):
            await limited.result()
    await check_session(stack, limited.session)


async def test_a_budget_of_money_on_a_model_without_a_price_is_refused(
    stack: Stack, worker: WorkerProcess, vendor: VendorServer
) -> None:
    vendor.received.clear()
    async with stack.connect() as sessions:
        handle = await sessions.submit("claude", "Hello", options=RunOptions(max_cost=Decimal(1)))
        with pytest.raises(InvalidInput, match="'claude' has no price"):
            await handle.result()
    assert vendor.received == []
    await check_session(stack, handle.session)


@pytest.mark.parametrize(
    "reply",
    [
        json_reply({"error": {"message": "Incorrect API key provided: canary-4f1d9a7c2b60 (canary-header-8e35)"}}, 401),
        Reply(
            400, {"content-type": "text/plain"}, [b"x-tenant: canary-header-8e35, authorization: canary-4f1d9a7c2b60"]
        ),
    ],
    ids=["key echoed as json", "headers echoed as text"],
)
async def test_a_key_that_a_vendor_echoes_is_nowhere(
    stack: Stack, worker: WorkerProcess, vendor: VendorServer, reply: Reply
) -> None:
    """Not in the error, no row of any table, no history and no log."""
    vendor.replies(reply)
    async with stack.connect() as sessions:
        handle = await sessions.submit("chat", "Hello")
        with pytest.raises(UPPError) as raised:
            await handle.result()
        rows = await every_row(sessions)
        workflow = sessions.client.get_workflow_handle(f"session/{sessions.tenant}/{handle.session}")
        history = (await workflow.fetch_history()).to_json()
    assert handle.id in rows, "the search looks where runs are"
    for place in (str(raised.value), rows, history, worker.said):
        assert "4f1d9a7c2b60" not in place
        assert "canary-header" not in place


async def every_row(sessions: Sessions) -> str:
    """All rows of all tables as text, bytea columns decoded too."""
    found: list[str] = []
    async with sessions.database.transaction() as connection:
        tables = await connection.scalars(text("select tablename from pg_tables where schemaname = 'perdure'"))
        for table in list(tables):
            rows = await connection.scalars(text(f"select row_to_json(t)::text from perdure.{table} t"))
            found += [_with_bytes(row) for row in rows]
    return "\n".join(found)


def _with_bytes(row: str) -> str:
    values = json.loads(row)
    decoded = [
        bytes.fromhex(value[2:]).decode("utf-8", "replace")
        for value in values.values()
        if isinstance(value, str) and value.startswith("\\x")
    ]
    return row + "".join(decoded)
