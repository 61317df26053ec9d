"""The HTTP API over TLS, by a certificate of one's own: HTTP/2 is agreed on, and early answers do not end a connection."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_api_runs import scripted


@dataclass(frozen=True)
class Identity:
    """A certificate for this machine, which signs for itself, and its key."""

    cert: Path
    key: Path

    @property
    def settings(self) -> dict[str, str]:
        return {"PERDURE_API_TLS_CERT": str(self.cert), "PERDURE_API_TLS_KEY": str(self.key)}

    @property
    def trust(self) -> ssl.SSLContext:
        """Trusts this certificate and no other."""
        return ssl.create_default_context(cafile=str(self.cert))


def make_identity(folder: Path, name: str) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Identity(folder / f"{name}.pem", folder / f"{name}.key")
    made.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return make_identity(tmp_path_factory.mktemp("tls"), "here")


@pytest.fixture(scope="module")
def api(stack: Stack, identity: Identity) -> Iterator[ApiProcess]:
    """A server that speaks TLS and takes bodies of 64 KiB at most."""
    process = ApiProcess(stack, PERDURE_MAX_REQUEST_BYTES="65536", **identity.settings).wait_ready()
    yield process
    process.kill()


def client(api: ApiProcess, identity: Identity, *, http2: bool = True) -> httpx.AsyncClient:
    """A client of one connection, which may speak HTTP/1.1 if the server does not agree on HTTP/2."""
    limits = httpx.Limits(max_connections=1)
    return httpx.AsyncClient(base_url=api.url, verify=identity.trust, http2=http2, limits=limits, timeout=60)


async def test_http_2(steady_worker: WorkerProcess, api: ApiProcess, identity: Identity) -> None:
    """A run over HTTP/2, beside requests that are answered before their body was read: all over one connection."""
    assert api.url.startswith("https://")
    async with client(api, identity) as http:
        run = {"agent": "actor", "input": scripted("Over HTTP/2."), "mode": "wait"}
        answers = await asyncio.gather(
            http.post("/api/runs", json=run),
            http.post("/api/runs", content=b" " * 60_000, headers={"X-API-Key": "pdk_x"}),
            http.post("/api/runs", content=b"1" * 300_000),
            http.post("/nowhere", content=b"1" * 60_000),
            http.get("/api/agents"),
        )
        assert [answer.http_version for answer in answers] == ["HTTP/2"] * 5
        assert [answer.status_code for answer in answers] == [200, 401, 413, 404, 200]
        assert code_of(answers[2], 413) == "too_large"
        ports = {answer.extensions["network_stream"].get_extra_info("client_addr") for answer in answers}
        assert len(ports) == 1
        events = [line async for line in _events(http, checked(answers[0])["run"])]
        assert any("run.completed" in line for line in events)


async def _events(http: httpx.AsyncClient, run: str) -> AsyncGenerator[str]:
    async with http.stream("GET", f"/api/runs/{run}/events") as response:
        assert response.http_version == "HTTP/2"
        async for line in response.aiter_lines():
            yield line


async def test_who_speaks_http_1_is_served_too(api: ApiProcess, identity: Identity) -> None:
    async with client(api, identity, http2=False) as http:
        answer = await http.get("/api/agents")
        assert (answer.status_code, answer.http_version) == (200, "HTTP/1.1")


async def test_where_there_is_a_certificate_plain_http_is_not_answered(api: ApiProcess) -> None:
    async with httpx.AsyncClient(base_url=api.url.replace("https://", "http://")) as http:
        with pytest.raises(httpx.TransportError):
            await http.get("/health")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["PERDURE_API_TLS_CERT"], "give both PERDURE_API_TLS_CERT and PERDURE_API_TLS_KEY"),
        (["PERDURE_API_TLS_KEY"], "give both PERDURE_API_TLS_CERT and PERDURE_API_TLS_KEY"),
        (["PERDURE_API_TLS_CERT", "another's key"], "cannot be used"),
        (["PERDURE_API_TLS_CERT", "no key"], "cannot be used"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_said_at_the_start(
    stack: Stack, identity: Identity, tmp_path: Path, names: list[str], reason: str
) -> None:
    """With the names of both settings."""
    settings = {name: value for name, value in identity.settings.items() if name in names}
    if "another's key" in names:
        settings["PERDURE_API_TLS_KEY"] = str(make_identity(tmp_path, "other").key)
    if "no key" in names:
        settings["PERDURE_API_TLS_KEY"] = str(tmp_path / "none.key")
    process = ApiProcess(stack, **settings)
    assert process.wait_dead() == 2
    assert reason in process.said
    assert "PERDURE_API_TLS_KEY" in process.said
