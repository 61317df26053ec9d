"""UAIP's conformance checks 15 to 22: what `POST /execute` asks for first. The first line of each says what the reference asks for."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.uaip_replies import expect
from tests.conformance.uaip_server import HEADER, UaipClient
from tests.conformance.uaip_store import SECOND

CALL: dict[str, Any] = {"action": "method_call", "task": "where", "args": {}}
NO_OBJECTS: list[Any] = [[], [1], None, "x", 1, True]


@pytest.mark.parametrize("body", [{}, b"{", b"", b"[]", {"workflow_name": 1}, "good"])
async def test_check_15_the_header_is_asked_for_first(uaip: UaipClient, body: Any) -> None:
    """No `X-Session-Id` is 400, even if the body is bad too."""
    good = {**CALL, "workflow_name": uaip.name("store")}
    assert HEADER in expect(await uaip.execute(good if body == "good" else body, {}), 400)["detail"]


async def test_check_16_the_headers_case_does_not_matter(uaip: UaipClient) -> None:
    """The header's name is matched in any case, and the reply has it again."""
    session = await uaip.open()
    body = {**CALL, "workflow_name": session.workflow}
    for name in ("X-Session-Id", "x-session-id", "X-SESSION-ID", "x-SESSION-iD"):
        response = await uaip.execute(body, {name: session.id})
        expect(response, 200)
        assert response.headers[HEADER] == session.id


@pytest.mark.parametrize("case", ["unknown", "no uuid", "a path", "quotes", "long", "no ASCII", "with more"])
async def test_check_17_unknown_and_malformed_ids(uaip: UaipClient, case: str) -> None:
    """An unknown or malformed session id is 404."""
    session = await uaip.open()
    ids = {
        "unknown": str(uuid.uuid4()),
        "no uuid": "nonsense",
        "a path": "../../etc/passwd",
        "quotes": "' or '1'='1",
        "long": "7" * 4000,
        "no ASCII": "\u00fc\u00df",
        "with more": f"{session.id}0",
    }
    body = {**CALL, "workflow_name": session.workflow}
    response = await uaip.http.post("/execute", json=body, headers=[(HEADER.encode(), ids[case].encode("latin-1"))])
    expect(response, 404)


async def test_check_18_a_session_is_of_one_workflow(uaip: UaipClient) -> None:
    """A session of one workflow is 404 under another."""
    session = await uaip.open()
    body = {**CALL, "workflow_name": uaip.name(SECOND)}
    expect(await uaip.execute(body, session.header), 404)
    assert await session.stage() == "browse"


async def test_check_19_the_workflow_of_an_action(uaip: UaipClient) -> None:
    """An unknown `workflow_name` is 404, a missing one 400."""
    session = await uaip.open()
    expect(await uaip.execute({**CALL, "workflow_name": uaip.name("no such workflow")}, session.header), 404)
    for missing in (CALL, {**CALL, "workflow_name": ""}, {**CALL, "workflow_name": 7}):
        expect(await uaip.execute(missing, session.header), 400)


async def test_check_20_the_action(uaip: UaipClient) -> None:
    """A missing `action` is 400; an unknown one, or one in another case, is 422."""
    session = await uaip.open()
    expect(await uaip.execute({"workflow_name": session.workflow}, session.header), 400)
    for action in ("fly", "Method_Call", "METHOD_CALL", "method_call "):
        expect(await session.send(action, task="where", args={}), 422)


@pytest.mark.parametrize("action", ["method_call", "stage_transition", "state_input"])
async def test_check_21_what_an_action_cannot_be_without(uaip: UaipClient, action: str) -> None:
    """`method_call` without `task`, `stage_transition` without `stage`, `state_input` without `state_updates`: 400."""
    expect(await (await uaip.open()).send(action), 400)


@pytest.mark.parametrize("given", NO_OBJECTS)
async def test_check_22_what_must_be_an_object(uaip: UaipClient, given: Any) -> None:
    """`args` and `state_updates` that are no objects are 400; without `args` there are none."""
    session = await uaip.open()
    expect(await session.send("method_call", task="where", args=given), 400)
    expect(await session.send("state_input", state_updates=given), 400)
    without = await session.send("method_call", task="where")
    assert uaip.server.form.result(without) == "browse"
