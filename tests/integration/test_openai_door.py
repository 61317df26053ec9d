"""Chat Completions as a door: paths, models, what is refused and how, media, what the model is sent, signatures."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import pytest_asyncio
import rfc8785
from joserfc import jwt
from joserfc.jwk import KeySet

from perdure.upp.json_value import sha256_hex
from tests.conformance.batch_place import (
    AGENT,
    COMPLETIONS,
    WEATHER,
    Batch,
    batch_api,
    batch_worker,
    client_of,
    content_of,
    error_of,
    function,
    user,
)
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGEST_BYTES = 1024 * 1024
PNG = base64.b64encode(b"\x89PNG" + b"p" * 40_000).decode()


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    with batch_worker(stack), batch_api(stack, PERDURE_MAX_REQUEST_BYTES=str(LARGEST_BYTES)) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def batch(api: ApiProcess) -> AsyncGenerator[Batch]:
    async with client_of(api) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/chat/completions", f"/agents/{AGENT}/chat/completions", f"/agents/{AGENT}/v1/chat/completions"]
)
async def test_each_path_serves(batch: Batch, path: str) -> None:
    model = AGENT if path.startswith("/chat") else "whatever"
    response = await batch.http.post(path, json={"model": model, "messages": [user("Hello")]})
    assert content_of(response) == "you said: Hello"
    assert response.json()["model"] == model


@pytest.mark.parametrize("prefix", ["", "/v1", f"/agents/{AGENT}", f"/agents/{AGENT}/v1"])
async def test_agents_are_models(batch: Batch, prefix: str) -> None:
    listed = (await batch.http.get(f"{prefix}/models")).json()
    (model,) = listed["data"]
    assert (listed["object"], model["id"], model["object"], model["owned_by"]) == ("list", AGENT, "model", "perdure")
    assert model["created"] > 1_700_000_000
    assert (await batch.http.get(f"{prefix}/models/{AGENT}")).json() == model
    assert error_of(await batch.http.get(f"{prefix}/models/none"), 404)["code"] == "model_not_found"


async def test_an_unknown_agent_or_session(batch: Batch) -> None:
    response = await batch.http.post(COMPLETIONS, json={"model": "none", "messages": [user("x")]})
    error = error_of(response, 404)
    assert (error["type"], error["code"], error["param"]) == ("not_found_error", "model_not_found", "model")
    assert AGENT in error["message"]
    unknown = await batch.post(user("x"), headers={"X-Session-Id": str(uuid.uuid4())})
    assert error_of(unknown, 404)["code"] == "unknown_session"
    assert error_of(await batch.http.get("/v1/other"), 404)["type"] == "not_found_error"
    assert error_of(await batch.http.get(COMPLETIONS), 405)["type"] == "invalid_request_error"


async def test_what_the_model_is_sent(batch: Batch) -> None:
    body = await batch.complete(
        {"role": "developer", "content": "Be brief."}, user("#seen"), temperature=0.5, max_tokens=50, stop="END", seed=7
    )
    seen = json.loads(body["choices"][0]["message"]["content"])
    assert seen["system"] == "Be brief."
    assert seen["params"] == {"temperature": 0.5, "max_tokens": 50, "stop": ["END"], "seed": 7}


async def test_the_form_of_the_answer(batch: Batch) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    choice = await batch.say("#json", response_format=wanted)
    assert json.loads(choice["message"]["content"]) == {"city": "Tokyo", "format": "json_schema"}
    assert (await batch.say("#cut"))["finish_reason"] == "length"


async def test_media_reaches_the_model(batch: Batch) -> None:
    """Small media as it came; large pictures are stored once and are the same bytes for the model."""
    small = base64.b64encode(b"small").decode()
    parts = [
        {"type": "text", "text": "#parts"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{small}"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}},
        {"type": "input_audio", "input_audio": {"data": small, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{small}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": f"data:text/plain;base64,{small}", "filename": "a.txt"}},
    ]
    of_small, of_large = sha256_hex(b"small"), sha256_hex(base64.b64decode(PNG))
    assert json.loads((await batch.say(parts))["message"]["content"]) == [
        ["text"],
        ["image", "image/png", of_small],
        ["image", "image/png", of_large],
        ["image", "image/jpeg", "https://example.com/a.jpg"],
        ["audio", "audio/wav", of_small],
        ["document", "application/pdf", of_small],
        ["document", "text/plain", of_small],
    ]
    before = (await batch.http.get("/api/content")).json()
    await batch.say(parts)
    assert len(before["contents"]) == 1
    assert (await batch.http.get("/api/content")).json() == before


async def test_stored_files(batch: Batch) -> None:
    posted = await batch.http.post(
        "/api/content?filename=cat.png", content=b"cat", headers={"content-type": "image/png"}
    )
    ident = posted.json()["content_id"]
    parts = [{"type": "text", "text": "#parts"}, {"type": "file", "file": {"file_id": ident}}]
    told = json.loads((await batch.say(parts))["message"]["content"])
    assert told[1] == ["image", "image/png", sha256_hex(b"cat")]
    missing = {"type": "file", "file": {"file_id": str(uuid.uuid4())}}
    assert error_of(await batch.post(user([missing])), 404)["code"] == "unknown_content"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"tools": [function("add")]}, "tools.0.function.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools.1.function.name"),
        ({"n": 2}, "n"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"temperature": "hot"}, "temperature"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools.0.type"),
    ],
)
async def test_what_cannot_be_used_is_named(batch: Batch, members: dict[str, Any], param: str) -> None:
    error = error_of(await batch.post(user("x"), **members), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


async def test_bodies_of_other_kinds(batch: Batch) -> None:
    response = await batch.http.post(COMPLETIONS, content=b"x", headers={"content-type": "application/octet-stream"})
    assert error_of(response, 400)["code"] == "invalid_json"
    large = json.dumps({"model": AGENT, "messages": [user("x" * LARGEST_BYTES)]}).encode()
    response = await batch.http.post(COMPLETIONS, content=large, headers={"content-type": "application/json"})
    assert error_of(response, 413)["type"] == "invalid_request_error"


async def test_signatures_are_verified_with_the_published_keys(batch: Batch) -> None:
    """Behind DONE in a stream, a member of a body; of what was said and what was answered."""
    messages = [{"role": "system", "content": "Be brief."}, user("Hello")]
    async with batch.streamed(*messages) as (_, source):
        events = [event async for event in source.aiter_sse()]
    assert [events[-2].data, events[-1].event] == ["[DONE]", "response_signature"]
    body = await batch.complete(*messages)
    keys = KeySet.import_key_set((await batch.http.get("/.well-known/jwks.json")).json())
    for signature in (json.loads(events[-1].data)["signature"], body["signature"]):
        claims = jwt.decode(signature, keys, algorithms=["RS256"]).claims
        assert claims["iss"] == AGENT
        assert claims["response_hash"] == sha256_hex(b"[Be brief.] you said: Hello")
        assert claims["request_hash"] == sha256_hex(rfc8785.dumps(messages))
