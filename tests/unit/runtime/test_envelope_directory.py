"""Manifests and hubs of others: believed if their own host has signed them, and followed within bounds."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from jwcrypto import jwk, jws

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.keys import VerificationKey, verification_key
from perdure.runtime.envelopes.client.directory import Directory
from tests.conformance.envelope_certificates import EnvelopeCertificates

MANIFEST: dict[str, Any] = {
    "agent": "uamp/1.0",
    "description": "a test",
    "intents": ["ask"],
    "body_types": ["text/plain"],
    "auth": ["oauth2"],
    "limits": {},
}
MANIFEST_PATH = "/.well-known/agent-manifest.json"
HUB_PATH = "/.well-known/agent-hub.json"


class Host:
    """A server of documents with a DID and a key."""

    def __init__(self, certificates: EnvelopeCertificates) -> None:
        self.documents: dict[str, bytes] = {}
        self.asked: list[str] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append(self.path)
                body = host.documents.get(self.path, b"")
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.server.cert, certificates.server.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_address[1]}"
        self.did = f"did:web:localhost%3A{self.server.server_address[1]}"
        self.key = cast(Any, jwk.JWK).generate(kty="EC", crv="P-256")

    def sign(self, value: Any, typ: str, *, by: Host | None = None, key: Any = None) -> bytes:
        signer = by or self
        token = jws.JWS(json.dumps(value).encode())
        header = {"alg": "ES256", "kid": f"{signer.did}#k1", "typ": typ}
        cast(Any, token).add_signature(key or signer.key, None, json.dumps(header), None)
        return token.serialize(compact=True).encode()

    def put_manifest(self, path: str = MANIFEST_PATH, **signing: Any) -> dict[str, str]:
        """Serve a manifest; how a hub lists it."""
        self.documents[path] = self.sign(MANIFEST, "manifest+jws", **signing)
        return {"did": self.did, "url": f"{self.url}{path}"}

    def put_hub(self, children: Sequence[dict[str, str]], path: str = HUB_PATH) -> dict[str, str]:
        """Serve a hub; how another hub lists it."""
        value: dict[str, Any] = {
            "manifests": [*children],
            "trust_anchors": [{"type": "did", "value": self.did}],
            "jwks": {"keys": []},
        }
        self.documents[path] = self.sign(value, "hub+jws")
        return {"did": self.did, "url": f"{self.url}{path}"}


class Keys:
    """The keys of hosts."""

    def __init__(self, *hosts: Host) -> None:
        self.known = {host.did: json.loads(host.key.export_public()) for host in hosts}

    async def keys(self, did: str, *, kid: str | None = None) -> Sequence[VerificationKey]:
        return [verification_key(f"{did}#k1", self.known[did])]


@contextmanager
def serving(host: Host) -> Generator[Host]:
    thread = threading.Thread(target=host.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.server.shutdown()
        host.server.server_close()
        thread.join(10)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> EnvelopeCertificates:
    return EnvelopeCertificates(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def one(certificates: EnvelopeCertificates) -> Iterator[Host]:
    with serving(Host(certificates)) as host:
        yield host


@pytest.fixture
def two(certificates: EnvelopeCertificates) -> Iterator[Host]:
    with serving(Host(certificates)) as host:
        yield host


@pytest.fixture
def directory(certificates: EnvelopeCertificates, one: Host, two: Host) -> Directory:
    return Directory(Keys(one, two), trust=certificates.trust(), allow_private=True)


async def test_a_manifest_is_its_hosts(directory: Directory, one: Host) -> None:
    one.put_manifest()
    found = await directory.manifest(one.url)
    assert (found.did, found.value) == (one.did, MANIFEST)
    assert found.sha256 == hashlib.sha256(json.dumps(MANIFEST).encode()).hexdigest()


async def test_a_manifest_that_another_host_has_signed_is_refused(directory: Directory, one: Host, two: Host) -> None:
    one.put_manifest(by=two)
    with pytest.raises(UAMPError, match="cannot be signed by") as caught:
        await directory.manifest(one.url)
    assert caught.value.code == Code.UNAUTHORIZED


async def test_a_manifest_with_anothers_key_is_refused(directory: Directory, one: Host, two: Host) -> None:
    one.put_manifest(key=two.key)
    with pytest.raises(UAMPError, match="does not verify") as caught:
        await directory.manifest(one.url)
    assert caught.value.code == Code.UNAUTHENTICATED


async def test_a_changed_manifest_is_refused(directory: Directory, one: Host) -> None:
    one.put_manifest()
    header, payload, signature = one.documents[MANIFEST_PATH].split(b".")
    changed = one.sign({**MANIFEST, "description": "another"}, "manifest+jws").split(b".")[1]
    assert changed != payload
    one.documents[MANIFEST_PATH] = b".".join((header, changed, signature))
    with pytest.raises(UAMPError, match="does not verify"):
        await directory.manifest(one.url)


async def test_a_hub_is_followed_and_told(directory: Directory, one: Host, two: Host) -> None:
    """A child that is not what is listed is told of; the others count."""
    good = one.put_manifest()
    other = two.put_manifest()
    swapped = {"did": one.did, "url": two.put_manifest("/swapped.json")["url"]}
    old = {**two.put_manifest("/old.json"), "sha256": "0" * 64}
    missing = {"did": two.did, "url": f"{two.url}/nowhere"}
    inner = two.put_hub([two.put_manifest("/agents/a/agent-manifest.json")])
    one.put_hub([good, other, swapped, old, missing, inner])
    found = await directory.hub(one.url)
    assert found.did == one.did
    assert found.anchors[0].value == one.did
    told = [(item.depth, item.kind, item.fault is None) for item in found.listed]
    assert told == [
        (0, "manifest", True),
        (0, "manifest", True),
        (0, None, False),
        (0, None, False),
        (0, None, False),
        (0, "hub", True),
        (1, "manifest", True),
    ]
    assert "the manifest is of" in (found.listed[2].fault or "")
    assert "not the version" in (found.listed[3].fault or "")


async def test_circles_and_depth_are_bounded(directory: Directory, one: Host, two: Host) -> None:
    """A hub that leads back is not entered again, nor one below two others."""
    deepest = two.put_hub([two.put_manifest("/too-deep.json")], "/four.json")
    three = two.put_hub([deepest], "/three.json")
    back = {"did": one.did, "url": f"{one.url}{HUB_PATH}"}
    second = two.put_hub([back, three], "/two.json")
    one.put_hub([second, second])
    found = await directory.hub(one.url)
    told = [(item.depth, item.kind, item.fault) for item in found.listed]
    assert [(depth, kind) for depth, kind, _ in told] == [(0, "hub"), (1, None), (1, "hub"), (2, "hub"), (0, None)]
    assert "leads back" in (told[1][2] or "")
    assert "too deep" in (told[3][2] or "")
    assert "twice" in (told[4][2] or "")
    assert one.asked == [HUB_PATH]
    assert "/too-deep.json" not in two.asked


async def test_the_number_of_documents_is_bounded(certificates: EnvelopeCertificates, one: Host) -> None:
    """So many with the hub itself, whatever it lists."""
    one.put_hub([{"did": one.did, "url": f"{one.url}/{number}.json"} for number in range(9)])
    directory = Directory(Keys(one), trust=certificates.trust(), allow_private=True, max_fetched=5)
    found = await directory.hub(one.url)
    assert len(one.asked) == 5
    assert ["not fetched" in (item.fault or "") for item in found.listed] == [False] * 4 + [True] * 5


async def test_a_hub_leads_to_no_private_address(certificates: EnvelopeCertificates, one: Host, two: Host) -> None:
    """What the user names may be here; what a stranger lists may not."""
    one.put_hub([two.put_manifest()])
    strict = Directory(Keys(one, two), trust=certificates.trust())
    found = await strict.hub(one.url)
    assert "this machine" in (found.listed[0].fault or "")
    assert two.asked == []


async def test_a_directory_speaks_tls_only(directory: Directory) -> None:
    with pytest.raises(InvalidInput, match="https"):
        await directory.manifest("http://localhost:1")
