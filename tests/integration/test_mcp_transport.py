"""What MCP's HTTP transport promises beside its tools: any process answers, nothing is done twice, news can be resumed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from mcp_types import RequestParamsMeta

from perdure.protocols.mcp.identity import KEY_MEMBER
from tests.integration.mcp_place import McpPlace, answer, fields, handshake, request, tool_names
from tests.integration.mcp_shop import NAME

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = f"/mcp/{NAME}"


async def shake_hands(http: httpx.AsyncClient, *, session: str | None = None) -> str:
    """Begin an MCP session; its id."""
    headers = {} if session is None else {"x-session-id": session}
    begun = await http.post(PATH, json=handshake(), headers=headers)
    assert answer(begun)["result"]["serverInfo"]["name"] == "perdure"
    return begun.headers["mcp-session-id"]


async def call(http: httpx.AsyncClient, mcp: str, id: int, name: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool's call."""
    asked = request(id, "tools/call", name=name, arguments=arguments)
    return answer(await http.post(PATH, json=asked, headers={"mcp-session-id": mcp}))["result"]


@asynccontextmanager
async def listening(http: httpx.AsyncClient, mcp: str, last: str | None = None) -> AsyncGenerator[AsyncIterator[Any]]:
    """The news of a session: the number and text of each."""
    headers = {"mcp-session-id": mcp, "mcp-protocol-version": "2025-11-25", "accept": "text/event-stream"}
    if last is not None:
        headers["last-event-id"] = last
    async with http.stream("GET", PATH, headers=headers) as response:
        assert response.status_code == 200
        yield _news(response)


async def _news(response: httpx.Response) -> AsyncGenerator[tuple[str, str]]:
    data = ""
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            data = line.removeprefix("data:").strip()
        elif line.startswith("id:"):
            yield line.removeprefix("id:").strip(), data


async def test_any_process_answers_and_the_news_come_from_any(mcp_place: McpPlace) -> None:
    """Hands are shaken with one process, tools are called at the other, and a third party moves the session."""
    one, other = mcp_place.apis
    async with mcp_place.http(one) as first, mcp_place.http(other) as second:
        mcp = await shake_hands(first)
        async with listening(first, mcp) as news:
            assert (await anext(news))[1] == "", "from where to go on is told before there are news"
            assert (await call(second, mcp, 1, "transition_stage", target_stage="cart"))["isError"] is False
            seq, told = await anext(news)
            assert "list_changed" in told
            session = {"x-session-id": mcp.partition(".")[0]}
            moved = {"workflow_name": NAME, "action": "stage_transition", "stage": "browse"}
            assert (await second.post("/execute", json=moved, headers=session)).status_code == 200
            assert "list_changed" in (await anext(news))[1]
        listed = answer(await second.post(PATH, json=request(2, "tools/list"), headers={"mcp-session-id": mcp}))
        assert [tool["name"] for tool in listed["result"]["tools"]] == [
            "search",
            "transition_stage",
            "terminate_session",
        ]
        async with listening(second, mcp, last=seq) as news:
            assert (await anext(news))[0] == seq
            assert "list_changed" in (await anext(news))[1], "the move that came after it"


async def test_a_request_that_is_sent_again_is_done_once(mcp_place: McpPlace) -> None:
    """Its id says that it is the same one, at whichever process it arrives; another id is another call."""
    one, other = mcp_place.apis
    async with mcp_place.http(one) as first, mcp_place.http(other) as second:
        mcp = await shake_hands(first)
        await call(first, mcp, 1, "transition_stage", target_stage="cart")
        added = await call(first, mcp, 2, "add", sku="pen")
        assert await call(second, mcp, 2, "add", sku="pen") == added
        session = added["structuredContent"]["session_id"]
        assert len(mcp_place.stack.entries(session, "added")) == 1
        assert (await call(second, mcp, 3, "add", sku="pen"))["structuredContent"]["result"] == 2
        clash = await call(second, mcp, 3, "add", sku="ink")
        assert clash["isError"] is True
        assert "was used before" in clash["content"][0]["text"]
        anew = await shake_hands(second, session=session)
        assert (await call(second, anew, 2, "add", sku="pen"))["structuredContent"]["result"] == 3


async def test_a_client_may_give_keys_of_its_own(mcp_place: McpPlace) -> None:
    """They hold in all connections of a stage session."""
    key = uuid.uuid4().hex
    session = await mcp_place.open_session()
    results: list[Any] = []
    for mode in ("legacy", "auto"):
        async with mcp_place.client(mode=mode, session=session) as client:
            if "add" not in await tool_names(client):
                await client.call_tool("transition_stage", {"target_stage": "cart"})
            good, bad = cast("list[RequestParamsMeta]", [{KEY_MEMBER: key}, {KEY_MEMBER: ""}])
            results.append(fields(await client.call_tool("add", {"sku": "pen"}, meta=good)))
            assert (await client.call_tool("add", {"sku": "pen"}, meta=bad)).is_error is True
    assert results[0] == results[1]
    assert len(mcp_place.stack.entries(session, "added")) == 1


async def test_a_client_is_killed_half_way_and_another_goes_on(mcp_place: McpPlace) -> None:
    """Its connection breaks in the middle of a call; the stage session is where it was, at another process."""
    one, other = mcp_place.apis
    async with mcp_place.http(one) as first:
        mcp = await shake_hands(first)
        session = mcp.partition(".")[0]
        await call(first, mcp, 1, "transition_stage", target_stage="cart")
        await call(first, mcp, 2, "add", sku="pen")
        wrapping = asyncio.create_task(call(first, mcp, 3, "wrap"))
        await mcp_place.stack.until_entries(session, "wrapping")
        wrapping.cancel()
        await asyncio.gather(wrapping, return_exceptions=True)
    mcp_place.release(session)
    async with mcp_place.client(other, session=session, mode="legacy") as client:
        assert "add" in await tool_names(client)
        await client.call_tool("provide_state", {"user.email": "ann@example.com"})
        assert mcp_place.wrapped(session) == 1
        await client.call_tool("transition_stage", {"target_stage": "checkout"})
        assert fields(await client.call_tool("pay", {}))["result"]["order"] == "42"
    assert len(mcp_place.stack.entries(session, "paid")) == 1


async def test_an_ended_session_is_not_there(mcp_place: McpPlace) -> None:
    """404 is what tells a client to begin anew; its DELETE ends nothing, and its news end."""
    async with mcp_place.http() as http:
        mcp = await shake_hands(http)
        kept = await http.delete(PATH, headers={"mcp-session-id": mcp})
        assert (kept.status_code, kept.headers["allow"]) == (405, "GET, POST")
        async with listening(http, mcp) as news:
            await call(http, mcp, 1, "terminate_session", reason="enough")
            assert "list_changed" in [told async for _, told in news][-1]
        for method in ("POST", "GET"):
            gone = await http.request(method, PATH, json=request(2, "tools/list"), headers={"mcp-session-id": mcp})
            assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        anew = await shake_hands(http)
        assert anew.partition(".")[0] != mcp.partition(".")[0]


@pytest.mark.parametrize("named", ["x", "no such", "00000000-0000-4000-8000-000000000000"])
async def test_what_is_no_session_is_not_found(mcp_place: McpPlace, named: str) -> None:
    async with mcp_place.http() as http:
        for header in ("mcp-session-id", "x-session-id"):
            gone = await http.post(PATH, json=request(1, "tools/list"), headers=[(header, named)])
            assert gone.status_code == 404, gone.text


async def test_a_request_that_names_no_session_is_told_what_to_do(mcp_place: McpPlace) -> None:
    async with mcp_place.http() as http:
        early = await http.post(PATH, json=request(1, "tools/list"))
        assert early.status_code == 400
        assert "initialize" in early.json()["error"]["message"]
        modern = await http.post(PATH, json=request(7, "tools/list"), headers={"mcp-protocol-version": "2026-07-28"})
        assert modern.status_code == 400
        told = modern.json()
        assert (told["id"], told["error"]["code"]) == (7, -32022)
        assert "2025-11-25" in told["error"]["data"]["supported"]
        broken = await http.post(PATH, content=b"{")
        assert broken.status_code == 400


async def test_http_2_is_spoken_too(mcp_place: McpPlace) -> None:
    """The protocol's own code sends headers that HTTP/2 forbids."""
    async with mcp_place.http(http1=False, http2=True) as http:
        mcp = await shake_hands(http)
        async with listening(http, mcp) as news:
            await anext(news)
            moved = await http.post(
                PATH,
                json=request(1, "tools/call", name="transition_stage", arguments={"target_stage": "cart"}),
                headers={"mcp-session-id": mcp},
            )
            assert moved.http_version == "HTTP/2"
            assert "connection" not in moved.headers
            assert answer(moved)["result"]["isError"] is False
            assert "list_changed" in (await anext(news))[1]
