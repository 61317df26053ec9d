"""The port of the gRPC binding: without a certificate there is none, and what cannot be used is named by its setting."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import h2.connection
import h2.events
import pytest
from fastapi import FastAPI
from grpclib.const import Status

from perdure.api.doors.envelope.grpc import grpc_context, serving_grpc
from perdure.api.doors.envelope.grpc_wire import status_of
from perdure.api.listener import bound
from perdure.api.patience import Patience
from perdure.config import Settings
from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.upp.redaction import known_secrets
from tests.conformance.envelope_certificates import EnvelopeCertificates

SECRET = "4f1c-very-own-secret-77aa"
REF = "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> EnvelopeCertificates:
    return EnvelopeCertificates(tmp_path_factory.mktemp("authority"))


def settings(certificates: EnvelopeCertificates, **more: Any) -> Settings:
    given: dict[str, Any] = {"api_tls_cert": certificates.server.cert, "api_tls_key": certificates.server.key, **more}
    return Settings(api_host="127.0.0.1", **given)


def test_only_tls_1_3_and_http_2_are_spoken(certificates: EnvelopeCertificates) -> None:
    context = grpc_context(settings(certificates))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_NONE
    context = grpc_context(settings(certificates, uamp_client_ca=certificates.authority))
    assert context.verify_mode is ssl.CERT_OPTIONAL


async def test_without_a_port_nothing_is_served_and_without_a_certificate_nothing_begins() -> None:
    async with serving_grpc(FastAPI(), Settings()):
        pass
    with pytest.raises(InvalidInput, match="PERDURE_UAMP_GRPC_PORT needs TLS"):
        async with serving_grpc(FastAPI(), Settings(uamp_grpc_port=0)):
            pass


async def test_a_taken_port_is_said_with_its_setting(certificates: EnvelopeCertificates) -> None:
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"port {port}.*PERDURE_UAMP_GRPC_PORT"):
            async with serving_grpc(FastAPI(), settings(certificates, uamp_grpc_port=port)):
                pass


def test_an_error_travels_whole_and_without_secrets() -> None:
    known_secrets.register("SHOP", SECRET)
    told = status_of(UAMPError(Code.BUSY, f"no {SECRET}", retry_after=timedelta(seconds=1.5), ref=REF))
    assert (told.status, told.message) == (Status.UNAVAILABLE, "no [redacted:SHOP]")
    error, again = cast("list[Any]", told.details)
    assert (error.code, error.message, error.retryable) == ("5.04", told.message, True)
    assert (error.retry_after_ms, error.ref) == (1500, REF)
    assert again.retry_delay.ToMilliseconds() == 1500


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_status(code: Code) -> None:
    told = status_of(UAMPError(code, "why"))
    assert told.status is not Status.OK
    assert told.status is not Status.UNKNOWN


def test_authorities_that_cannot_be_used_are_named(certificates: EnvelopeCertificates, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    for name in ("none.pem", "missing.pem"):
        with pytest.raises(InvalidInput, match="PERDURE_UAMP_CLIENT_CA"):
            grpc_context(settings(certificates, uamp_client_ca=tmp_path / name))
    with pytest.raises(InvalidInput, match="cannot be used"):
        grpc_context(settings(certificates, api_tls_key=tmp_path / "missing.key"))


async def test_a_connection_that_answers_no_ping_is_let_go_of(certificates: EnvelopeCertificates) -> None:
    async with pinging(certificates, silence_s=0.2, stalled_s=0.3) as port, asyncio.timeout(60):
        assert await pings_until_closed(certificates, port, answered=0, enough=1000) in (1, 2, 3)


async def test_a_connection_that_answers_pings_is_kept(certificates: EnvelopeCertificates) -> None:
    """Beyond the time in which each must be answered: a stream that is silent for long is no dead one."""
    async with pinging(certificates, silence_s=0.2, stalled_s=3) as port, asyncio.timeout(60):
        began = asyncio.get_running_loop().time()
        assert await pings_until_closed(certificates, port, answered=1000, enough=20) == 20
        assert asyncio.get_running_loop().time() - began > 3


@asynccontextmanager
async def pinging(certificates: EnvelopeCertificates, *, silence_s: float, stalled_s: float) -> AsyncGenerator[int]:
    """A server with this patience; its port."""
    app, said = FastAPI(), list[str]()
    app.state.backend = SimpleNamespace(patience=Patience(silence_s=silence_s, stalled_s=stalled_s))
    app.state.envelopes_opened = asyncio.Event()
    app.state.envelopes_opened.set()
    async with serving_grpc(app, settings(certificates, uamp_grpc_port=0), said.append):
        yield int(said[0].rpartition(":")[2])


async def pings_until_closed(certificates: EnvelopeCertificates, port: int, *, answered: int, enough: int) -> int:
    """How many pings come before the server closes, if so many are answered; or enough of them."""
    trust = certificates.trust()
    trust.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    pings = 0
    while pings < enough and (data := await reader.read(65536)):
        pings += sum(isinstance(event, h2.events.PingReceived) for event in connection.receive_data(data))
        if pings <= answered:
            writer.write(connection.data_to_send())
    writer.close()
    return pings
