"""UAIP's conformance checks 1 to 9: `POST /initialize`. The first line of each says what the reference asks for."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.uaip_replies import expect
from tests.conformance.uaip_server import HEADER, UaipClient


async def test_check_01_a_session_has_an_id_a_workflow_and_its_stages(uaip: UaipClient) -> None:
    """200 with `session_id`, `workflow`, `initial_stage` and `stages` in the order of their declaration."""
    body = expect(await uaip.initialize({"workflow_name": uaip.name("store")}), 200)
    assert isinstance(body["session_id"], str)
    assert body["workflow"] == uaip.name("store")
    assert body["initial_stage"] == "browse"
    assert "stages" in body, f"no `stages` in {sorted(body)}"
    assert body["stages"] == ["browse", "select", "checkout", "done"]


async def test_check_02_the_id_is_a_uuid_and_the_header_has_it(uaip: UaipClient) -> None:
    """`session_id` is a valid UUID, and equals the response's `X-Session-Id`."""
    response = await uaip.initialize({"workflow_name": uaip.name("store")})
    identity = expect(response, 200)["session_id"]
    assert str(uuid.UUID(identity)) == identity.lower()
    assert response.headers[HEADER] == identity


async def test_check_03_the_initial_stage_is_where_the_session_is(uaip: UaipClient) -> None:
    """`initial_stage` is the definition's and the schema's, and a task of it works."""
    opened = expect(await uaip.initialize({"workflow_name": uaip.name("store")}), 200)
    assert opened["initial_stage"] == expect(await uaip.schema(), 200)["initial_stage"] == "browse"
    assert await (await uaip.open()).stage() == "browse"


async def test_check_04_two_calls_give_two_ids(uaip: UaipClient) -> None:
    """Two calls give two different ids."""
    assert (await uaip.open()).id != (await uaip.open()).id


@pytest.mark.parametrize("body", [{}, {"workflow_name": ""}, {"workflow_name": None}, {"name": "store"}])
async def test_check_05_a_workflow_must_be_named(uaip: UaipClient, body: Any) -> None:
    """A missing or empty `workflow_name` is 400 with a text as `detail`."""
    expect(await uaip.initialize(body), 400)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"store"', b"1", b"null", b"\xff\xfe", pytest.param(b"[" * 5000, id="deep")]
)
async def test_check_06_a_body_that_is_no_json_object(uaip: UaipClient, body: bytes) -> None:
    """An empty body, broken JSON, an array or a text is 400, never 500 and never a list as `detail`."""
    expect(await uaip.initialize(body), 400)


@pytest.mark.parametrize("name", [1, True, ["store"], {"name": "store"}])
async def test_check_07_a_workflows_name_is_a_text(uaip: UaipClient, name: Any) -> None:
    """`workflow_name` of another type than a text is 400."""
    expect(await uaip.initialize({"workflow_name": name}), 400)


@pytest.mark.parametrize(
    "name", ["no such workflow", "STORE", "store ", "x" * 5000], ids=["none", "case", "space", "long"]
)
async def test_check_08_an_unknown_workflow(uaip: UaipClient, name: str) -> None:
    """An unknown workflow is 404."""
    expect(await uaip.initialize({"workflow_name": uaip.name(name)}), 404)


async def test_check_09_every_reply_is_json(uaip: UaipClient) -> None:
    """`Content-Type` of every reply is `application/json`."""
    session = await uaip.open()
    replies = [
        await uaip.initialize({"workflow_name": uaip.name("store")}),
        await uaip.initialize(b"{"),
        await uaip.initialize({"workflow_name": uaip.name("no such workflow")}),
        await uaip.execute({}, {}),
        await uaip.execute(b"{", session.header),
        await uaip.execute({"workflow_name": session.workflow, "action": "fly"}, {HEADER: str(uuid.uuid4())}),
        await session.go("nowhere"),
        await uaip.schema(),
    ]
    types = [reply.headers["content-type"].partition(";")[0] for reply in replies]
    assert types == ["application/json"] * len(replies)
