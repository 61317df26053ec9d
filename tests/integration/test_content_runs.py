"""Media in runs: models are shown the bytes of what messages name, and what tools make is stored once."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from sqlalchemy import func, select

from perdure.errors import UnknownContent
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.runtime.response_rows import ResponseRows, response_events
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.content.contents import NewContent, delete_content, find_content, keep_content, read_content
from perdure.store.database import Database
from perdure.store.tables import contents, messages
from perdure.upp.content import ContentBlock, DocumentBlock, ImageBlock, TextBlock, UserContent
from perdure.upp.json_value import encode_base64
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import UserMessage
from perdure.upp.turn import Turn
from tests.clients.vendor_server import VendorServer, sse_reply
from tests.integration.api_server import ApiProcess, checked
from tests.integration.content_agents import picture
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.integration.content_agents:app"
QUEUE = {"PERDURE_TASK_QUEUE": "content"}
FIXTURES = Path(__file__).parents[1] / "clients" / "fixtures"


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    """Serves the artist; the tests of kills, at the end of this file, bring their own beside it."""
    process = WorkerProcess(stack, APP, **QUEUE).wait_ready()
    yield process
    process.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def sessions(stack: Stack, worker: WorkerProcess) -> AsyncGenerator[Sessions]:
    async with stack.connect() as connected:
        yield connected


def spec(*script: Any) -> dict[str, Any]:
    """A script with a name of its own."""
    return {"name": uuid.uuid4().hex, "script": [*script]}


def said(values: dict[str, Any], *media: ContentBlock) -> UserMessage:
    return UserMessage([TextBlock(json.dumps(values)), *cast("tuple[UserContent, ...]", media)])


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def stored(database: Database, body: bytes, kind: str = "image/png", tenant: str = "default") -> str:
    row, _ = await keep_content(database, tenant, NewContent(kind, body, "test"))
    return row.id


def shown(stack: Stack, name: str, call: int = -1) -> list[list[str]]:
    """The media of a model call."""
    return stack.entries(name, "model")[call]["media"]


def results(turn: Turn) -> list[Any]:
    return [execution.result for execution in turn.tool_executions]


async def test_a_model_is_shown_the_bytes_that_a_message_names(stack: Stack, sessions: Sessions) -> None:
    """Uploaded and named over HTTP, signed or not; the message itself stays small, and so does what the next run sends."""
    api, values = ApiProcess(stack).wait_ready(), spec("A square.", "As I said.")
    body = picture("upload", 50_000)
    try:
        async with api.client() as client:
            made = checked(await client.post("/content", content=body, headers={"content-type": "image/png"}), 201)
            signed = checked(await client.post(f"/content/{made['content_id']}/url"))
            text = {"type": "text", "text": json.dumps(values)}
            image = {
                "type": "image",
                "mimeType": "image/jpeg",
                "source": {"type": "url", "url": api.url + signed["url"]},
            }
            given = {
                "agent": "artist",
                "input": {"type": "user", "content": [text, image]},
                "mode": "wait",
                "wait_s": 60,
            }
            run = checked(await client.post("/runs", json=given))
            assert run["status"] == "completed", run
            again = {"input": json.dumps(spec("x") | {"name": values["name"]}), "mode": "wait", "wait_s": 60}
            checked(await client.post(f"/sessions/{run['session']}/runs", json=again))
    finally:
        api.kill()
    for call in (0, 1):
        assert shown(stack, values["name"], call) == [["image", "image/png", sha(body)]]
    async with sessions.database.transaction() as connection:
        of_session = messages.c.session_id == run["session"]
        sizes = (await connection.scalars(select(func.length(messages.c.body)).where(of_session))).all()
    assert max(size or 0 for size in sizes) < 2000
    facts = await check_session(stack, run["session"])
    (kept,) = facts.messages[0].message.images
    assert kept.source == UrlSource(made["url"])


async def test_documents_are_shown_as_what_is_stored(stack: Stack, sessions: Sessions) -> None:
    values = spec("Read.")
    text, pdf = (
        await stored(sessions.database, "ä,b".encode(), "text/csv"),
        await stored(sessions.database, b"%PDF", "application/pdf"),
    )
    blocks = [
        DocumentBlock(UrlSource(f"/api/content/{text}"), "text/plain", "a.csv"),
        DocumentBlock(UrlSource(f"/api/content/{pdf}"), "application/pdf"),
    ]
    await (await sessions.submit("artist", said(values, *blocks))).result()
    assert shown(stack, values["name"]) == [
        ["document", "text/plain", sha("ä,b".encode())],
        ["document", "application/pdf", sha(b"%PDF")],
    ]


async def test_content_of_another_tenant_is_none(stack: Stack, sessions: Sessions) -> None:
    """Refused before anything is stored, with the id; as is what was never there."""
    values = spec("never")
    theirs = await stored(sessions.database, picture("theirs"), tenant="other")
    for ident in (theirs, str(uuid.uuid4())):
        with pytest.raises(UnknownContent, match=ident):
            await sessions.submit("artist", said(values, ImageBlock(UrlSource(f"/api/content/{ident}"), "image/png")))
    assert stack.entries(values["name"]) == []


async def test_content_that_is_gone_fails_the_run_once_and_by_name(stack: Stack, sessions: Sessions) -> None:
    """The model is not asked; the session goes on once the conversation has it no more."""
    values = spec("Seen.")
    ident = await stored(sessions.database, picture("gone"))
    first = await sessions.submit("artist", said(values, ImageBlock(UrlSource(f"/api/content/{ident}"), "image/png")))
    await first.result()
    assert await delete_content(sessions.database, "default", ident)
    later = spec("never")
    handle = await sessions.submit("artist", said(later), session=first.session)
    with pytest.raises(UnknownContent, match=ident):
        await handle.result()
    assert stack.entries(later["name"]) == []
    assert (await handle.status()).status == "failed"


async def told(sessions: Sessions, handle: RunHandle) -> list[dict[str, Any]]:
    """The response of a run, as UAMP tells it."""
    rows, flow = ResponseRows(sessions.database, handle.accepted.key, handle.id), ResponseFlow("r", handle.id, "s")
    async with aclosing(response_events(handle, rows, flow)) as response:
        return [event.to_json() async for row in response for event in row.events]


async def test_what_a_tool_makes_is_stored_and_named(stack: Stack, sessions: Sessions) -> None:
    """The model is told the id and never the bytes; another tool reads them; the response tells the item with the result."""
    values = spec(
        [{"tool": "draw", "arguments": {"name": "a cat"}}],
        [{"tool": "look", "arguments": {"content_id": "?"}}],
        "Done.",
    )
    handle = await sessions.submit("artist", said(values))
    drawn, looked = results(await handle.result())
    (item,) = drawn["content_items"]
    body = picture("a cat")
    assert drawn["result"] == {"drawn": "a cat"}
    assert {name: item[name] for name in item if name != "content_id"} == {
        "type": "image", "media_type": "image/png", "size_bytes": len(body), "filename": "drawn.png",
        "description": "a picture of a cat",
    }  # fmt: skip
    assert looked == {"media_type": "image/png", "sha256": sha(body), "filename": "drawn.png"}
    row = await find_content(sessions.database, item["content_id"], "default")
    assert row is not None
    assert row.made_by == f"run {handle.id}"
    assert await read_content(sessions.database, row) == body
    events = await told(sessions, handle)
    first, second = (
        event["delta"]["tool_result"] for event in events if event.get("delta", {}).get("type") == "tool_result"
    )
    assert first["content_items"][0]["image"] == {"url": f"/api/content/{item['content_id']}"}
    assert first["content_items"][0]["content_id"] == item["content_id"]
    assert "content_items" not in second
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "Done."}]


@pytest.mark.parametrize("by", ["present", "tool"])
async def test_the_agent_chooses_what_is_shown(stack: Stack, sessions: Sessions, by: str) -> None:
    """By the tool `present`, or a tool of its own says so; what nobody chose is not in the output."""
    draw = {"tool": "draw", "arguments": {"name": by, "show": by == "tool"}}
    script: list[Any] = [[draw, {"tool": "draw", "arguments": {"name": "a sketch"}}]]
    script += [[{"tool": "present", "arguments": {"content_ids": ["?"]}}]] if by == "present" else []
    handle = await sessions.submit("artist", said(spec(*script, "Here it is.")))
    turn = await handle.result()
    ident = results(turn)[0]["content_items"][0]["content_id"]
    text, image = (await told(sessions, handle))[-1]["response"]["output"]
    assert text == {"type": "text", "text": "Here it is."}
    assert (image["type"], image["content_id"], image["image"]) == ("image", ident, {"url": f"/api/content/{ident}"})


async def test_a_model_sees_what_a_tool_has_made_for_it(stack: Stack, sessions: Sessions) -> None:
    """Behind the result, in each call from then on; the thread holds the result alone."""
    values = spec([{"tool": "screenshot", "arguments": {"name": "a screen"}}], "I see.")
    handle = await sessions.submit("artist", said(values))
    (made,) = results(await handle.result())
    assert made["shown_to_model"] is True
    later = spec("Still.")
    await (await sessions.submit("artist", said(later), session=handle.session)).result()
    seen = ["image", "image/png", sha(picture("a screen"))]
    assert [entry["media"] for entry in stack.entries(values["name"], "model")] == [[], [seen]]
    assert shown(stack, later["name"]) == [seen]
    facts = await check_session(stack, handle.session)
    types = [item.message.type for item in facts.messages]
    assert types == ["user", "assistant", "tool_result", "assistant", "user", "assistant"]


async def test_what_cannot_be_shown_is_the_models_to_mend(stack: Stack, sessions: Sessions) -> None:
    theirs = await stored(sessions.database, picture("theirs"), tenant="other")
    calls: list[dict[str, Any]] = [
        {"tool": "present", "arguments": {"content_ids": [ident]}} for ident in (theirs, "no id")
    ]
    calls.append({"tool": "draw", "arguments": {"name": "x", "size": 70 * 1024 * 1024}})
    turn = await (await sessions.submit("artist", said(spec(calls, "Sorry.")))).result()
    assert [execution.is_error for execution in turn.tool_executions] == [True] * 3
    first, second, third = results(turn)
    assert theirs in first
    assert "'no id'" in second
    assert "PERDURE_MAX_CONTENT_BYTES" in third


async def test_text_has_no_url_of_content_however_it_is_cut(stack: Stack, sessions: Sessions) -> None:
    """The model streams three characters at a time; what is stored is what it wrote, so that it reads its own words."""
    ident = await stored(sessions.database, picture("x"))
    written = (
        f"See ![the square](/api/content/{ident}?expires=1&signature=ab) or https://h/api/content/{ident}, or http."
    )
    handle = await sessions.submit("artist", said(spec(written)))
    assert (await handle.result()).response.text == written
    events = await told(sessions, handle)
    deltas = [event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text"]
    assert len(deltas) > 5
    assert "".join(deltas) == f"See the square or content:{ident}, or http."
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "".join(deltas)}]
    assert "/api/content/" not in json.dumps(events)


DATA = "the bytes in base64"
WIRE: dict[str, tuple[str, int, dict[str, Any]]] = {
    "claude": (
        "anthropic/text.sse", 0,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    ),
    "chat": (
        "openai_completions/text.sse", 1,
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    ),
}  # fmt: skip
"""By agent: what its vendor answers, which message of the request has the image, and how that is written."""


@pytest.mark.parametrize("agent", WIRE)
async def test_vendors_are_sent_the_bytes(stack: Stack, agent: str) -> None:
    """Through their own adapters, as they would come over the wire."""
    fixture, place, form = WIRE[agent]
    body = picture("vendor")
    async with VendorServer() as vendor:
        environment = {"PERDURE_TEST_VENDOR": vendor.url, "PERDURE_TASK_QUEUE": "content-vendors"}
        process = WorkerProcess(stack, "tests.integration.vendor_agents:app", **environment).wait_ready()
        try:
            vendor.replies(sse_reply((FIXTURES / fixture).read_bytes(), piece=37))
            async with stack.connect() as sessions:
                ident = await stored(sessions.database, body)
                image = ImageBlock(UrlSource(f"/api/content/{ident}"), "image/png")
                await (await sessions.submit(agent, UserMessage([TextBlock("See."), image]))).result()
        finally:
            process.kill()
        found = vendor.received[0].json()["messages"][place]["content"][1]
        assert found == json.loads(json.dumps(form).replace(DATA, encode_base64(body)))


@pytest.mark.parametrize("point", ["content.storing", "content.stored", "call_tool.storing", "call_tool.stored"])
async def test_a_worker_that_dies_between_media_and_result_stores_both_once(
    stack: Stack, tmp_path: Path, point: str
) -> None:
    values = spec([{"tool": "draw", "arguments": {"name": "a kill"}}], "Done.")
    environment = {"PERDURE_TASK_QUEUE": "content-kills", "PERDURE_CRASH_AT": point}
    first = WorkerProcess(stack, APP, **environment, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("artist", said(values))
        first.wait_dead()
        then = WorkerProcess(stack, APP, PERDURE_TASK_QUEUE="content-kills").wait_ready()
        try:
            turn = await handle.result()
        finally:
            then.kill()
        async with sessions.database.transaction("default") as connection:
            mine = contents.c.made_by == f"run {handle.id}"
            rows = (await connection.execute(select(contents.c.id).where(mine))).all()
    (drawn,) = results(turn)
    assert [row.id for row in rows] == [item["content_id"] for item in drawn["content_items"]]
    await check_session(stack, handle.session)
    assert stack.entries(values["name"], "model")[-1]["results"] == [json.dumps(drawn, separators=(",", ":"))]
