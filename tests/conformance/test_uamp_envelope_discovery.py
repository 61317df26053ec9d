"""Checks 55, 56, 58 and 59: manifests, hubs and DID documents, by sockets, verified with another library."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
import rfc8785
from jsonschema import Draft202012Validator
from jwcrypto import jwk

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.keys import VerificationKey
from perdure.runtime.envelopes.client.directory import Directory, HubView
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.outbound import trusting
from tests.conformance.did_host import DIDHost, did_host, public_of
from tests.conformance.envelope_peer import new_key
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.envelope_tokens import sign_compact, verify_compact

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANIFEST, HUB, DID = (f"/.well-known/{name}.json" for name in ("agent-manifest", "agent-hub", "did"))
AGENT = "/agents/assistant"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["agent", "description", "intents", "body_types", "auth", "limits"],
    "properties": {
        "agent": {"type": "string", "pattern": r"^uamp/1\.[0-9]+$"},
        "description": {"type": "string"},
        "intents": {"type": "array", "items": {"type": "string"}},
        "body_types": {"type": "array", "items": {"type": "string"}},
        "auth": {"type": "array", "items": {"enum": ["oauth2", "mtls"]}},
        "limits": {
            "type": "object",
            "properties": {"max_body_kb": {"type": "integer"}, "rate_lph": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
"""A.3 of the specification, with its regular expression mended."""


@pytest_asyncio.fixture(loop_scope="module")
async def http(envelopes: EnvelopeServer) -> AsyncGenerator[httpx.AsyncClient]:
    """A stranger's client: it shows nothing."""
    async with httpx.AsyncClient(
        verify=envelopes.certificates.trust(), base_url=envelopes.url, http2=True, http1=False, timeout=60
    ) as client:
        yield client


@pytest.fixture
def host(envelopes: EnvelopeServer) -> Iterator[DIDHost]:
    with did_host(envelopes.certificates.server) as made:
        yield made


def resolver(envelopes: EnvelopeServer) -> DIDResolver:
    return DIDResolver(trust=trusting(envelopes.certificates.authority, "it"), allow_private=True)


class Documents:
    """Finds keys by their DID documents, each time anew."""

    def __init__(self, envelopes: EnvelopeServer) -> None:
        self._resolver = resolver(envelopes)

    async def keys(self, did: str, *, kid: str | None = None) -> list[VerificationKey]:
        return [*(await self._resolver.resolve(did)).keys]


def directory(envelopes: EnvelopeServer) -> Directory:
    trust = trusting(envelopes.certificates.authority, "it")
    return Directory(Documents(envelopes), trust=trust, allow_private=True)


def verified(compact: str, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and payload of a JWS, if a key that the DID document lists for assertions has signed it."""
    kid = json.loads(base64.urlsafe_b64decode(compact.split(".")[0] + "=="))["kid"]
    assert kid in document["assertionMethod"]
    (method,) = [method for method in document["verificationMethod"] if method["id"] == kid]
    header, payload = verify_compact(compact, method["publicKeyJwk"])
    return header, json.loads(payload)


@pytest.mark.parametrize(("manifest", "did"), [(MANIFEST, DID), (f"{AGENT}/agent-manifest.json", f"{AGENT}/did.json")])
async def test_e55_a_manifest_is_a_signed_jws_that_verifies(
    envelopes: EnvelopeServer, http: httpx.AsyncClient, manifest: str, did: str
) -> None:
    """Of the host and of an agent: each signed by its own DID; the flattened form, if it is asked for, says the same."""
    response = await http.get(manifest)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/manifest+jws")
    document = (await http.get(did)).json()
    header, payload = verified(response.text, document)
    assert header["typ"] == "manifest+jws"
    assert document["id"] == (envelopes.did if manifest == MANIFEST else envelopes.did_of("assistant"))
    cast(Any, Draft202012Validator(SCHEMA)).validate(payload)
    assert payload["agent"] == "uamp/1.0"
    assert "assistant" in payload["description"]
    flat = await http.get(manifest, headers={"accept": "application/jose+json"})
    assert flat.headers["content-type"] == "application/jose+json"
    assert set(flat.json()) == {"protected", "payload", "signature"}
    parts = (flat.json()[name] for name in ("protected", "payload", "signature"))
    assert verified(".".join(parts), document)[1] == payload


async def test_e55_an_agent_that_is_not_there_has_no_documents(http: httpx.AsyncClient) -> None:
    for name in ("agent-manifest.json", "did.json"):
        for agent in ("nobody", "..", "%2e%2e", "assistant%00"):
            response = await http.get(f"/agents/{agent}/{name}")
            assert response.status_code == 404, agent
            assert "Traceback" not in response.text
    problem = (await http.get("/agents/nobody/did.json")).json()
    assert (problem["code"], problem["retryable"]) == ("4.04", False)


def manifest_of(description: str = "somebody") -> dict[str, Any]:
    limits = {"max_body_kb": 1}
    head = {"agent": "uamp/1.0", "description": description, "limits": limits}
    return {**head, "intents": ["ask"], "body_types": ["text/plain"], "auth": ["oauth2"]}


def signed(value: dict[str, Any], key: jwk.JWK, kid: str, typ: str = "manifest+jws") -> bytes:
    return sign_compact(rfc8785.dumps(value), key, kid=kid, typ=typ).encode()


async def test_e56_a_manifest_that_was_changed_is_refused(envelopes: EnvelopeServer, host: DIDHost) -> None:
    """The payload, the signature, the kind; what is unsigned; and one that another key of the same name has signed."""
    did, key = host.did(), new_key()
    kid = f"{did}#k1"
    host.serve(did, public_of(key, kid))
    good = signed(manifest_of(), key, kid)
    reader, url = directory(envelopes), f"https://localhost:{host.port}"
    host.answers[MANIFEST] = (200, {}, good)
    assert (await reader.manifest(url)).value == manifest_of()
    head, _, tail = good.split(b".")
    other = base64.urlsafe_b64encode(rfc8785.dumps(manifest_of("other"))).rstrip(b"=")
    bad = {
        b".".join([head, other, tail]): "4.01",
        signed(manifest_of(), new_key(), kid): "4.01",
        signed(manifest_of(), key, kid, typ="hub+jws"): "4.01",
        signed(manifest_of(), key, f"{did}#k2"): "4.01",
        b".".join([head, other, b""]): "4.01",
        json.dumps(manifest_of()).encode(): "4.00",
        signed({**manifest_of(), "agent": "uamp/2.0"}, key, kid): "4.00",
    }
    for data, code in bad.items():
        host.answers[MANIFEST] = (200, {}, data)
        with pytest.raises(UAMPError) as caught:
            await reader.manifest(url)
        assert caught.value.code == code, data


async def test_e56_a_manifest_speaks_for_its_own_host_only(envelopes: EnvelopeServer, host: DIDHost) -> None:
    """A good one of ours, served elsewhere, is refused, though its signature verifies."""
    async with httpx.AsyncClient(verify=envelopes.certificates.trust(), base_url=envelopes.url, timeout=60) as http:
        ours = (await http.get(MANIFEST)).content
    host.answers[MANIFEST] = (200, {}, ours)
    with pytest.raises(UAMPError) as caught:
        await directory(envelopes).manifest(f"https://localhost:{host.port}")
    assert caught.value.code == "4.03"
    assert (await directory(envelopes).manifest(envelopes.url)).did == envelopes.did


async def test_e58_a_hub_lists_the_agents_that_are_served(envelopes: EnvelopeServer, http: httpx.AsyncClient) -> None:
    """Signed as a hub, by the host; each child's manifest is where it says, of whom it says, with the hash that it says."""
    response = await http.get(HUB)
    assert response.headers["content-type"] == "application/hub+jws"
    document = (await http.get(DID)).json()
    header, hub = verified(response.text, document)
    assert header["typ"] == "hub+jws"
    children = {child["did"]: child for child in hub["manifests"]}
    assert next(iter(children)) == envelopes.did
    assert envelopes.did_of("assistant") in children
    assert {"type": "did", "value": envelopes.did} in hub["trust_anchors"]
    assert {key["kid"] for key in hub["jwks"]["keys"]} == set(document["assertionMethod"])
    for child in children.values():
        compact = (await http.get(child["url"])).text
        payload = compact.split(".")[1]
        digest = hashlib.sha256(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).hexdigest()
        assert digest == child["sha256"]
    view = await directory(envelopes).hub(envelopes.url)
    assert [listed.manifest.did for listed in view.listed if listed.manifest] == list(children)


def list_on(host: DIDHost, key: jwk.JWK, *urls: str, path: str = HUB) -> None:
    """Have a host list these, all as its own."""
    did = host.did()
    host.serve(did, public_of(key, f"{did}#k1"))
    document: dict[str, Any] = {
        "manifests": [{"did": did, "url": url} for url in urls],
        "trust_anchors": [],
        "jwks": {"keys": []},
    }
    host.answers[path] = (200, {}, signed(document, key, f"{did}#k1", typ="hub+jws"))


async def test_e58_hubs_are_followed_neither_in_a_circle_nor_too_deep(envelopes: EnvelopeServer, host: DIDHost) -> None:
    key, url = new_key(), f"https://localhost:{host.port}"
    list_on(host, key, f"{url}{HUB}", f"{url}/1", f"{url}/1")
    for depth in range(1, 9):
        list_on(host, key, f"{url}/{depth + 1}", f"{url}{HUB}", path=f"/{depth}")
    view: HubView = await directory(envelopes).hub(url)
    assert host.asked.count(HUB) == 1
    assert [path for path in host.asked if re.fullmatch("/[0-9]", path)] == ["/1", "/2", "/3"]
    assert all(listed.manifest is None for listed in view.listed)


async def test_e58_a_hub_does_not_lead_to_this_machine_by_itself(envelopes: EnvelopeServer, host: DIDHost) -> None:
    key, url = new_key(), f"https://localhost:{host.port}"
    list_on(host, key, f"{url}/secret")
    reader = Directory(Documents(envelopes), trust=trusting(envelopes.certificates.authority, "it"))
    (listed,) = (await reader.hub(url)).listed
    assert (listed.manifest, "/secret" in host.asked) == (None, False)


@pytest.mark.parametrize(("path", "agent"), [(DID, None), (f"{AGENT}/did.json", "assistant")])
async def test_e59_a_did_document_is_served_and_resolvable(
    envelopes: EnvelopeServer, http: httpx.AsyncClient, path: str, agent: str | None
) -> None:
    """Where the method says, with the port of a development server in the name; by strangers, without a private part."""
    did = envelopes.did if agent is None else envelopes.did_of(agent)
    assert re.match(r"did:web:localhost%3A[0-9]+", did)
    response = await http.get(path)
    assert response.headers["content-type"] == "application/did+json"
    document = response.json()
    assert document["id"] == did
    assert '"d"' not in response.text
    for method in document["verificationMethod"]:
        assert re.fullmatch(re.escape(did) + "#[0-9a-f]{8}", method["id"])
        thumbprint = base64.urlsafe_b64decode(jwk.JWK(**method["publicKeyJwk"]).thumbprint() + "=")
        assert method["id"].endswith(thumbprint.hex()[:8])
    found = await resolver(envelopes).resolve(did)
    assert [key.kid for key in found.keys] == document["assertionMethod"]
    key_set = (await http.get("/.well-known/uamp-jwks.json")).json()
    assert {key["kid"] for key in key_set["keys"]} >= set(document["assertionMethod"])


async def test_e59_a_did_of_nobody_here_does_not_resolve(envelopes: EnvelopeServer) -> None:
    for did in (envelopes.did_of("nobody"), f"{envelopes.did}:nobody"):
        with pytest.raises(Exception, match="404"):
            await resolver(envelopes).resolve(did)
    with pytest.raises(InvalidInput, match="this machine"):
        await DIDResolver().resolve(envelopes.did)


async def test_e59_a_document_is_fresh(http: httpx.AsyncClient) -> None:
    """Caches keep it for less than a new key waits before it signs."""
    age = re.search("max-age=([0-9]+)", (await http.get(DID)).headers["cache-control"])
    assert age is not None
    assert int(age[1]) <= 60
