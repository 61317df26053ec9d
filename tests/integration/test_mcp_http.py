"""A stage workflow over MCP's streamable HTTP: the official client and fastmcp's buy, and are refused what is not for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import httpx
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification

from tests.integration.mcp_place import McpPlace, buy, fields, text, tool_names
from tests.integration.mcp_shop import NAME
from tests.integration.stack import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_buys(mcp_place: McpPlace, mode: str) -> None:
    """Without a session it shakes hands, is in the first stage, and hears of each change of its tools."""
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async def heard_enough() -> bool:
        return len([one for one in heard if isinstance(one, ToolListChangedNotification)]) >= 3

    async with mcp_place.client(mode=mode, message_handler=hear) as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        assert await tool_names(client) == ["search", "transition_stage", "terminate_session"]
        paid = await buy(client.call_tool)
        assert await tool_names(client) == ["terminate_session"]
        assert fields(paid)["session_id"] in str(client.instructions)
        await eventually(heard_enough, what=f"three changes: {heard}")
    assert fields(paid)["result"] == {"order": "42", "sent_to": "ann@example.com"}
    assert text(paid).startswith("Task 'pay' executed successfully.")


async def test_a_client_of_2026_buys_in_the_session_that_it_names(mcp_place: McpPlace) -> None:
    """There is no MCP session then: each request is one for itself, and news come to who listens."""
    session = await mcp_place.open_session()
    async with mcp_place.client(session=session) as client:
        assert client.protocol_version == "2026-07-28"
        async with client.listen(tools_list_changed=True) as changes:
            paid = await buy(client.call_tool)
            assert await anext(aiter(changes)) == ToolsListChanged()
        assert await tool_names(client) == ["terminate_session"]
    assert fields(paid)["session_id"] == session


async def test_fastmcps_client_buys(mcp_place: McpPlace) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async def heard_of_it() -> bool:
        return any(isinstance(one, ToolListChangedNotification) for one in heard)

    transport = StreamableHttpTransport(mcp_place.endpoint(), headers={"Authorization": f"Bearer {mcp_place.key}"})
    async with FastClient(transport, message_handler=hear) as client:
        assert await tool_names(client) == ["search", "transition_stage", "terminate_session"]
        paid = await buy(lambda name, arguments: client.call_tool_mcp(name, arguments))
        assert await tool_names(client) == ["terminate_session"]
        await eventually(heard_of_it, what=f"a change: {heard}")
    assert fields(paid)["result"] == {"order": "42", "sent_to": "ann@example.com"}


async def test_a_tool_of_another_stage_is_refused_when_it_is_called(mcp_place: McpPlace) -> None:
    """What the client lists does not matter: the session refuses, nothing was done, and the model is told what there is."""
    async with mcp_place.client() as client:
        refused = await client.call_tool("pay", {})
        assert refused.is_error is True
        assert text(refused) == "Error: Task 'pay' not found in stage 'browse'"
        told = fields(refused)
        assert (told["available"], told["current_stage"]) == (["search"], "browse")
        assert "tools" not in told
        assert "content" not in told
        unmoved = await client.call_tool("transition_stage", {"target_stage": "done"})
        assert unmoved.is_error is True
        assert fields(unmoved)["allowed"] == ["cart"]
        assert await tool_names(client) == ["search", "transition_stage", "terminate_session"]
    assert mcp_place.stack.entries(told["session_id"]) == []


async def test_what_a_task_raises_and_wrong_arguments_are_results_for_the_model(mcp_place: McpPlace) -> None:
    async with mcp_place.client() as client:
        await client.call_tool("transition_stage", {"target_stage": "cart"})
        await client.call_tool("add", {"sku": "ink"})
        raised = await client.call_tool("drop", {})
        assert raised.is_error is True
        assert text(raised) == "Error: it fell down"
        assert fields(raised)["error"] == {"type": "RuntimeError", "message": "it fell down"}
        for wrong in ({}, {"sku": 1}, {"sku": "x", "colour": "red"}):
            misfit = await client.call_tool("add", wrong)
            assert misfit.is_error is True
            assert fields(misfit)["errors"]
        added = await client.call_tool("add", {"sku": "pen"})
    assert fields(added)["result"] == 2, "what was written before the task raised is not kept"


async def test_missing_prerequisites_are_asked_for_and_provided(mcp_place: McpPlace) -> None:
    """`provide_state` is there as long as a way on lacks what clients may write, and only with those keys."""
    async with mcp_place.client() as client:
        await client.call_tool("transition_stage", {"target_stage": "cart"})
        asked = {tool.name: tool for tool in (await client.list_tools()).tools}["provide_state"]
        assert list(asked.input_schema["properties"]) == ["user.email"]
        lacking = await client.call_tool("transition_stage", {"target_stage": "checkout"})
        assert lacking.is_error is True
        assert fields(lacking)["status"] == "input_required"
        assert fields(lacking)["missing"] == ["cart.items", "user.email"]
        assert "provide_state takes those" in text(lacking)
        assert (await client.call_tool("provide_state", {"cart.items": []})).is_error is True
        await client.call_tool("provide_state", {"user.email": "ann@example.com"})
        assert "provide_state" not in await tool_names(client)


async def test_what_can_be_read(mcp_place: McpPlace) -> None:
    async with mcp_place.client() as client:
        found = [resource.uri for resource in (await client.list_resources()).resources]
        assert found == ["uaip://session", "uaip://workflow"]

        async def read(uri: str) -> Any:
            (content,) = (await client.read_resource(uri)).contents
            return json.loads(content.model_dump()["text"])

        done = fields(await client.call_tool("search", {"words": "pen"}))
        assert (await read("uaip://workflow"))["initial_stage"] == "browse"
        standing = await read("uaip://session")
        assert standing["ways_on"] == [{"stage": "cart", "missing": []}]
        assert standing["session_id"] == done["session_id"]
        assert (await read(f"uaip://actions/{done['action_id']}"))["result"] == ["pen-1", "pen-2"]
        for nothing in ("uaip://actions/no", "uaip://state", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="no resource"):
                await client.read_resource(nothing)


async def test_a_call_that_takes_long_reports_progress(mcp_place: McpPlace) -> None:
    news: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        news.append((progress, message))

    async def heard() -> bool:
        return bool(news)

    async with mcp_place.client() as client:
        session = fields(await client.call_tool("transition_stage", {"target_stage": "cart"}))["session_id"]
        wrapping = asyncio.create_task(client.call_tool("wrap", {}, progress_callback=hear))
        try:
            await eventually(heard, what="progress")
        finally:
            mcp_place.release(session)
            wrapped = await wrapping
    assert fields(wrapped)["result"] == "wrapped"
    assert news[0][1] == "'wrap' is running"


async def test_a_cancelled_request_loses_nothing(mcp_place: McpPlace) -> None:
    """The client gives up, the task does not: it is done once, and the next action comes after it."""
    async with mcp_place.client() as client:
        session = fields(await client.call_tool("transition_stage", {"target_stage": "cart"}))["session_id"]
        with anyio.CancelScope() as patience:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "wrap")
                await mcp_place.stack.until_entries(session, "wrapping")
                patience.cancel()
        assert mcp_place.wrapped(session) == 0
        mcp_place.release(session)
        await client.call_tool("add", {"sku": "pen"})
        assert mcp_place.wrapped(session) == 1
    async with mcp_place.stages() as stages:
        assert (await stages.state(session))["cart.wrapped"] is True


async def test_what_waits_for_a_person_is_answered_at_once_and_read_later(mcp_place: McpPlace) -> None:
    async with mcp_place.client() as client:
        await client.call_tool("transition_stage", {"target_stage": "cart"})
        await client.call_tool("add", {"sku": "pen"})
        await client.call_tool("provide_state", {"user.email": "ann@example.com"})
        await client.call_tool("transition_stage", {"target_stage": "checkout"})
        waiting = await client.call_tool("borrow", {"amount": 5})
        told = fields(waiting)
        assert (waiting.is_error, told["status"]) == (False, "waiting")
        uri = f"uaip://actions/{told['action_id']}"
        assert uri in text(waiting)
        async with mcp_place.stages() as stages:
            await stages.answer(told["session_id"], told["action_id"], {"approved": True}, by="boss")

        async def lent() -> Any:
            (content,) = (await client.read_resource(uri)).contents
            return json.loads(content.model_dump()["text"]).get("result")

        assert await eventually(lent) == 5


async def test_another_tenant_has_no_such_session(mcp_place: McpPlace) -> None:
    """It is told what one is told of an id that nobody has; so is the owner at another workflow."""
    session = await mcp_place.open_session()
    theirs = {"authorization": f"Bearer {mcp_place.others}"}
    for mode in ("auto", "legacy"):
        with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match="Session not found"), flatten_subgroups=True):
            async with mcp_place.client(mode=mode, session=session, headers=theirs):
                pytest.fail("it was let in")
    async with mcp_place.http() as http:
        missing = await http.post("/mcp/nothing", json={}, headers={"x-session-id": session})
        assert (missing.status_code, missing.json()["error"]["message"]) == (404, "Workflow not found: nothing")


async def test_without_a_key_nothing_is_told(mcp_place: McpPlace) -> None:
    session = await mcp_place.open_session()
    async with httpx.AsyncClient(base_url=mcp_place.apis[0].url) as nobody:
        for method in ("GET", "POST", "DELETE"):
            refused = await nobody.request(method, f"/mcp/{NAME}", headers={"x-session-id": session})
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Bearer")
            assert refused.json()["error"]["data"] == {"code": "unauthenticated"}
    async with mcp_place.http(key=mcp_place.readers) as reader:
        refused = await reader.post(f"/mcp/{NAME}", json={})
        assert (refused.status_code, refused.json()["error"]["data"]) == (403, {"code": "forbidden"})


async def test_who_waits_while_its_process_ends_is_told_where_the_result_will_be(mcp_place: McpPlace) -> None:
    with mcp_place.another_api() as ending:
        async with mcp_place.client(ending) as client:
            session = fields(await client.call_tool("transition_stage", {"target_stage": "cart"}))["session_id"]
            calling = asyncio.create_task(client.call_tool("wrap", {}))
            await mcp_place.stack.until_entries(session, "wrapping")
            stopping = asyncio.create_task(asyncio.to_thread(ending.terminate))
            unsettled = await calling
            assert fields(unsettled)["status"] == "running"
            assert await stopping == 0
            mcp_place.release(session)
    uri = f"uaip://actions/{fields(unsettled)['action_id']}"
    async with mcp_place.client(session=session) as client:

        async def settled() -> Any:
            (content,) = (await client.read_resource(uri)).contents
            return json.loads(content.model_dump()["text"]).get("result")

        assert await eventually(settled) == "wrapped"
    assert mcp_place.wrapped(session) == 1
