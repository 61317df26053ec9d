"""The server below the app, with apps of a few lines: what it tells them of clients that leave, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.api.listener import bound, bound_datagrams
from perdure.api.serve import server_config
from perdure.api.tls_server import PEER_CERTIFICATE, serve_asgi
from perdure.config import Settings
from perdure.errors import InvalidInput
from tests.conformance.envelope_certificates import EnvelopeCertificates
from tests.conformance.envelope_quic import quic_line


class Recorder:
    """An app that answers each request by an event without end, and remembers what it was told.

    At `/deaf` it takes nothing of what a client sends, and answers once `heard` is set.
    """

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.heard = asyncio.Event()
        self.certificates: list[bytes | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.certificates.append(scope["state"].get(PEER_CERTIFICATE))
        if scope["path"] == "/deaf":
            await self.heard.wait()
        is_short = scope["path"] in ("/short", "/deaf")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"id: 0\ndata: {}\n\n", "more_body": not is_short})
        while not is_short:
            if (await receive())["type"] == "http.disconnect":
                self.left.set()
                return


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> EnvelopeCertificates:
    return EnvelopeCertificates(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def served(app: Recorder, certificates: EnvelopeCertificates) -> AsyncGenerator[str]:
    """Where an app is served while the block lasts."""
    stop = asyncio.Event()
    settings = Settings(
        api_tls_cert=certificates.server.cert,
        api_tls_key=certificates.server.key,
        uamp_client_ca=certificates.authority,
    )

    async def stopped() -> None:
        await stop.wait()

    with bound("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(serve_asgi(app, server_config(listener, settings), stopped))
        try:
            yield f"https://localhost:{listener.getsockname()[1]}"
        finally:
            stop.set()
            async with asyncio.timeout(30):
                await serving


async def test_a_reader_over_http_3_that_wants_no_more_is_noticed(certificates: EnvelopeCertificates) -> None:
    app = Recorder()
    async with served(app, certificates) as url, quic_line(url, certificates.authority, None) as line:
        some = await line.request("GET", "/", until=1)
        line.leave(some.stream)
        async with asyncio.timeout(30):
            await app.left.wait()
        assert (await line.request("GET", "/short")).status == 200


async def test_a_request_over_http_3_that_nobody_reads_holds_up_no_other_connection(
    certificates: EnvelopeCertificates,
) -> None:
    """What is sent with it waits, and so does its connection; others are served, and it goes on in the end."""
    app = Recorder()
    async with (
        served(app, certificates) as url,
        quic_line(url, certificates.authority, None) as line,
        quic_line(url, certificates.authority, None) as other,
    ):
        unread = asyncio.create_task(line.request("POST", "/deaf", bytes(700_000)))
        for _ in range(20):
            assert (await other.request("GET", "/short")).status == 200
        app.heard.set()
        assert (await unread).status == 200
        assert (await line.request("GET", "/short")).status == 200


async def test_a_connection_over_http_3_that_ends_is_noticed(certificates: EnvelopeCertificates) -> None:
    app = Recorder()
    async with served(app, certificates) as url:
        async with quic_line(url, certificates.authority, None) as line:
            await line.request("GET", "/", until=1)
        async with asyncio.timeout(30):
            await app.left.wait()


async def test_a_certificate_stands_in_the_scope_of_its_own_connection_alone(
    certificates: EnvelopeCertificates,
) -> None:
    app = Recorder()
    shown = certificates.client("did:web:ann.example")
    async with served(app, certificates) as url:
        for client in (None, shown, None):
            async with httpx.AsyncClient(verify=certificates.trust(client), http2=True) as http:
                await http.get(f"{url}/short")
        async with quic_line(url, certificates.authority, None) as line:
            await line.request("GET", "/short")
    assert [found is not None for found in app.certificates] == [False, True, False, False]


def test_a_udp_port_that_is_taken_is_said() -> None:
    with bound("127.0.0.1", 0) as listener, bound_datagrams(listener), pytest.raises(InvalidInput, match="UDP port"):
        bound_datagrams(listener)


def test_authorities_that_cannot_be_used_are_said(certificates: EnvelopeCertificates, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    settings = Settings(
        api_tls_cert=certificates.server.cert,
        api_tls_key=certificates.server.key,
        uamp_client_ca=tmp_path / "none.pem",
    )
    with bound("127.0.0.1", 0) as listener, pytest.raises(InvalidInput, match="PERDURE_UAMP_CLIENT_CA"):
        server_config(listener, settings)
