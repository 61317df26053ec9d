"""L96: what is fetched by an address from a setting cannot be led into a private network."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.outbound import check_url, fetch, is_public

PRIVATE = [
    "169.254.169.254", "10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "0.0.0.0", "100.64.0.1", "192.0.2.1",
    "198.18.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "2001:db8::1",
    "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a00:1", "2002:a00:1::", "2001:0:a00:1::",
]  # fmt: skip
DISGUISED = [
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "2852039166",
    "[::ffff:169.254.169.254]",
    "[::ffff:7f00:1]",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_l96_a_private_address_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_l96_a_public_address_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "gopher://a.example/", "ftp://a.example/x", "http://a.example/", "https:///x", "x",
        "http://localhost.evil.example/", "http://2130706433/", "https://user:password@a.example/", "https://a.example/#x",
    ],
)  # fmt: skip
def test_l96_only_https_or_http_on_this_machine_is_fetched(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url(url, "PERDURE_JWKS_URL")
    assert "PERDURE_JWKS_URL" in str(caught.value)
    assert "password@" not in str(caught.value)


@pytest.mark.parametrize("host", DISGUISED)
async def test_l96_an_address_in_disguise_is_judged_by_what_it_is(host: str) -> None:
    with pytest.raises((InvalidInput, ServerUnavailable), match=r"no public address|has no address|it is no address"):
        await fetch(check_url(f"https://{host}/keys", "it"), max_bytes=100)


async def test_l96_every_address_of_a_name_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a public and a private address is refused, whichever comes first."""

    async def two(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 443)) for host in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
    with pytest.raises(InvalidInput, match=r"10\.0\.0\.1"):
        await fetch(httpx.URL("https://rebinds.example/keys"), max_bytes=100)


async def test_l96_a_name_that_changes_its_address_meanwhile_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up once, and the connection goes to the address that was judged then."""
    looked_up: list[object] = []

    async def changing(host: object, *_: object, **__: object) -> list[object]:
        looked_up.append(host)
        address = "127.0.0.1" if len(looked_up) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))]

    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as url:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", changing)
        assert await fetch(url.copy_with(host="rebinds.example"), max_bytes=100, allow_private=True) == b"{}"
    assert looked_up == ["rebinds.example"]


@asynccontextmanager
async def serving(answer: bytes) -> AsyncGenerator[httpx.URL]:
    """A server on this machine that gives one answer to all, and keeps no connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield httpx.URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys")


async def test_this_machine_is_fetched_from_if_it_is_named_as_such() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as url:
        assert await fetch(url, max_bytes=100) == b"{}"


async def test_a_name_that_leads_to_this_machine_is_fetched_from_only_if_private_networks_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def here(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]

    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as url:
        named = url.copy_with(host="intranet.example")
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", here)
        with pytest.raises(InvalidInput, match=r"127\.0\.0\.1"):
            await fetch(named, max_bytes=100)
        assert await fetch(named, max_bytes=100, allow_private=True) == b"{}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", "302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000, "larger"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"40\r\n" + b"x" * 64 + b"\r\n" * 1
         + b"40\r\n" + b"x" * 64 + b"\r\n0\r\n\r\n", "larger"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "500"),
        (b"", "cannot be fetched"),
    ],
    ids=["redirect", "too large", "too large in chunks", "failure", "nothing"],
)  # fmt: skip
async def test_l96_what_is_no_small_document_is_refused(answer: bytes, reason: str) -> None:
    async with serving(answer) as url:
        with pytest.raises(ServerUnavailable, match=reason):
            await fetch(url, max_bytes=100)


async def test_a_server_that_never_answers_is_given_up() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n") as url:
        with pytest.raises(ServerUnavailable):
            await fetch(url, max_bytes=100, seconds=0.2)
