"""Check 52: who may send, by keys and tokens, on every binding; and that a credential is bound to `from`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import httpx
import pytest
import websockets
from jwcrypto import jwk

from perdure.store.api_keys import create_key
from perdure.store.database import Database
from tests.conformance.envelope_lines import HttpLine, problem_of
from tests.conformance.envelope_peer import new_key
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.conformance.envelope_tokens import Issuer
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUDIENCE = "https://agents.example"
ISSUER = Issuer()
SHARED: jwk.JWK = cast(Any, jwk.JWK).generate(kty="oct", size=256)


@pytest.fixture(scope="module")
def served(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnvelopeServer]:
    """A server that takes the issuer's tokens."""
    file: Path = ISSUER.write_key_set(tmp_path_factory.mktemp("issuer") / "keys.json")
    with envelope_server(stack, jwt_issuer="https://issuer.example", jwt_audience=AUDIENCE, jwks_file=file) as ours:
        yield ours


def token(did: str, *, key: jwk.JWK | None = None, alg: str = "ES256", **claims: Any) -> str:
    said = {"aud": AUDIENCE, "sub": did, "tenant": "default", "scope": "run", **claims}
    return ISSUER.token(said, key=key, alg=alg)


@asynccontextmanager
async def line_with(served: EnvelopeServer, bearer: str | None) -> AsyncGenerator[HttpLine]:
    async with served.http("ann", bearer=bearer) as line:
        yield line


async def check_refused(served: EnvelopeServer, bearer: str | None, code: str, status: int) -> httpx.Response:
    """A message and a stream are refused by HTTP, and so is a socket before it opens; the credential is not repeated."""
    async with line_with(served, bearer) as line:
        response = await line.post(line.peer.signed(intent="inform"))
        streamed = await line.http.get("/v1/stream/any")
    for each in (response, streamed):
        problem_of(each, code, status)
        assert bearer is None or bearer not in each.text
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with served.socket("ann", bearer=bearer):
            pass
    assert caught.value.response.status_code == status
    return response


BAD: dict[str, Callable[[str], str]] = {
    "unknown key": lambda _: "pdk_0123456789abcdef_" + "A" * 43,
    "no token": lambda _: "nonsense",
    "expired": lambda did: token(did, exp=int(time.time()) - 120),
    "wrong aud": lambda did: token(did, aud="https://other.example"),
    "wrong iss": lambda did: token(did, iss="https://other.example"),
    "wrong key": lambda did: token(did, key=new_key()),
    "wrong alg": lambda did: token(did, key=SHARED, alg="HS256"),
    "none": lambda did: "eyJhbGciOiJub25lIn0." + token(did).split(".")[1] + ".",
    "no exp": lambda did: token(did, exp=None),
    "no tenant": lambda did: token(did, tenant=None),
}


async def test_e52_without_a_credential_it_is_401_with_a_challenge(served: EnvelopeServer) -> None:
    response = await check_refused(served, None, "4.01", 401)
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", BAD)
async def test_e52_a_worthless_credential_is_401(served: EnvelopeServer, name: str) -> None:
    response = await check_refused(served, BAD[name](served.peers["ann"].did), "4.01", 401)
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_e52_a_good_credential_without_the_scope_is_403(served: EnvelopeServer) -> None:
    did = served.peers["ann"].did
    await check_refused(served, token(did, scope="read approve"), "4.03", 403)
    await check_refused(served, token(did, scope=None), "4.03", 403)
    await check_refused(served, await served.bearer(did, "read"), "4.03", 403)


async def test_e52_a_good_token_or_key_may_send(served: EnvelopeServer) -> None:
    did = served.peers["ann"].did
    for bearer in (token(did), token(did, scope="admin"), await served.bearer(did, "run")):
        async with line_with(served, bearer) as line:
            await line.send(line.peer.signed(intent="inform"))


async def test_e52_a_credential_speaks_for_its_own_did_only(served: EnvelopeServer) -> None:
    """Though the envelope is signed by whom it is from; and one that names no agent, or is another tenant's, for nobody."""
    database = Database(served.database_url, pool_size=1)
    _, foreign = await create_key(database, "another", served.peers["ann"].did, ("run",))
    await database.close()
    for bearer in (served.tokens[served.peers["bob"].did], token(served.peers["bob"].did)):
        async with line_with(served, bearer) as line:
            await line.refused(line.peer.signed(intent="inform"), "4.03", 403)
    for bearer in (await served.bearer("robot"), token("ann"), foreign, token(served.peers["ann"].did, tenant="other")):
        await check_refused(served, bearer, "4.03", 403)


async def test_e52_a_subject_that_is_cut_is_nobodys(served: EnvelopeServer) -> None:
    """A long one would end where the DID of another does."""
    did = "did:web:long.example:" + "a" * 179
    assert len(did) == 200
    await check_refused(served, token(f"{did}bc"), "4.03", 403)


async def test_e52_two_credentials_are_none(served: EnvelopeServer) -> None:
    ann = served.peers["ann"]
    headers = [("authorization", f"Bearer {served.tokens[ann.did]}")] * 2 + [("content-type", "application/uamp+json")]
    async with served.http("ann", bearer=None) as line:
        body = ann.sign(ann.unsigned(intent="inform"))
        response = await line.http.post("/v1/messages", json=body, headers=headers)
    problem_of(response, "4.01", 401)


BAD_FOR_GRPC: dict[str, tuple[Callable[[str], str | None], grpc.StatusCode]] = {
    "nothing": (lambda _: None, grpc.StatusCode.UNAUTHENTICATED),
    "expired": (BAD["expired"], grpc.StatusCode.UNAUTHENTICATED),
    "no scope": (lambda did: token(did, scope="read"), grpc.StatusCode.PERMISSION_DENIED),
}


@pytest.mark.parametrize("name", BAD_FOR_GRPC)
async def test_e52_grpc_refuses_the_same(served: EnvelopeServer, name: str) -> None:
    bearer, status = BAD_FOR_GRPC[name]
    async with served.grpc("ann", bearer=bearer(served.peers["ann"].did)) as line:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await line.send(line.peer.signed(intent="inform"))
        assert caught.value.code() == status
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await line.stream("any").read()
        assert caught.value.code() == status


async def test_e52_grpc_takes_a_good_token(served: EnvelopeServer) -> None:
    async with served.grpc("ann", bearer=token(served.peers["ann"].did)) as line:
        assert (await line.send(line.peer.signed(intent="inform"))).accepted
