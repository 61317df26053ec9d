"""A web host of somebody else's, at a real TLS socket of this machine: serves DID documents, and counts who asks for them."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jwcrypto import jwk

from tests.conformance.envelope_certificates import Certificate

Answer = tuple[int, dict[str, str], bytes]


class DIDHost:
    """What is served, and what was asked for.

    Attributes:
        port: on localhost.
        asked: the paths of all requests, in order.
        answers: by path; another path is a 404.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []
        self.answers: dict[str, Answer] = {}

    def did(self, *path: str) -> str:
        """A did:web name of this host."""
        return ":".join([f"did:web:localhost%3A{self.port}", *path])

    def serve(self, did: str, *keys: dict[str, Any], **members: Any) -> None:
        """Serve a DID document with these public keys for assertions; a member that is None is left out."""
        document: dict[str, Any] = {
            "@context": ["https://www.w3.org/ns/did/v1"],
            "id": did,
            "verificationMethod": [method_of(did, key) for key in keys],
            "assertionMethod": [key["kid"] for key in keys],
            **members,
        }
        document = {name: value for name, value in document.items() if value is not None}
        self.answers[path_of(did)] = (200, {}, json.dumps(document).encode())

    def count(self, did: str) -> int:
        """How often a DID document was asked for."""
        return self.asked.count(path_of(did))


def method_of(did: str, key: dict[str, Any]) -> dict[str, Any]:
    """A public key as a DID document has it."""
    bare = {name: value for name, value in key.items() if name in ("kty", "crv", "x", "y")}
    return {"id": key["kid"], "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": bare}


def path_of(did: str) -> str:
    """Where the document of a did:web is."""
    _, _, _, *path = did.split(":")
    return "/" + "/".join(path or [".well-known"]) + "/did.json"


def public_of(key: jwk.JWK, kid: str) -> dict[str, Any]:
    """A key's public part with a kid."""
    return {**json.loads(key.export_public()), "kid": kid}


@contextmanager
def did_host(certificate: Certificate) -> Generator[DIDHost]:
    """A host that shows this certificate."""
    host: DIDHost

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host.asked.append(self.path)
            status, headers, body = host.answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in {"content-type": "application/did+json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    host = DIDHost(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
