"""Checks 48, 51 and 53 of UAMP's envelope for the gRPC binding: TLS, who calls, and messages that no library sends."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncGenerator

import grpc
import h2.connection
import pytest

from tests.conformance.envelope_grpc import followed, refused
from tests.conformance.envelope_lines import GrpcLine, text_of
from tests.conformance.envelope_server import EnvelopeServer

Code = grpc.StatusCode
PATIENCE_S = 60


@pytest.fixture
async def ann(envelopes: EnvelopeServer) -> AsyncGenerator[GrpcLine]:
    async with envelopes.grpc("ann") as line:
        yield line


async def test_e51_what_is_too_large_is_refused_and_the_connection_lives(ann: GrpcLine) -> None:
    """Also when only its length has come: no more than the limit is ever held."""
    await refused(ann.send(b" " * (1024 * 1024 + 1)), "4.13", Code.RESOURCE_EXHAUSTED)
    await refused(ann.send(b" " * (3 * 1024 * 1024)), "4.13", Code.RESOURCE_EXHAUSTED)
    assert (await ann.send(ann.peer.signed(intent="inform"))).accepted


async def test_e51_a_caller_must_show_who_it_is(envelopes: EnvelopeServer) -> None:
    for bearer in (None, "pdk_nothing", "a.b.c"):
        async with envelopes.grpc("ann", bearer=bearer) as line:
            await refused(line.send(line.peer.signed()), "4.01", Code.UNAUTHENTICATED)
            await refused(line.stream("x").read(), "4.01", Code.UNAUTHENTICATED)
            await refused(line.connect().read(), "4.01", Code.UNAUTHENTICATED)
            assert (await line.manifest()).count(".") == 2
    reader = await envelopes.bearer(envelopes.peers["ann"].did, "read")
    async with envelopes.grpc("ann", bearer=reader) as line:
        await refused(line.send(line.peer.signed()), "4.03", Code.PERMISSION_DENIED)


async def test_e53_a_client_certificate_is_enough_by_grpc(envelopes: EnvelopeServer) -> None:
    ann, bob = envelopes.peers["ann"], envelopes.peers["bob"]
    certificate = envelopes.certificates.client(ann.did)
    async with envelopes.grpc("ann", bearer=None, certificate=certificate) as line:
        sent = ann.signed("by certificate")
        assert text_of(await followed(line, sent, (await line.send(sent)).stream_id)) == "echo: by certificate"
        await refused(line.send(bob.signed()), "4.03", Code.PERMISSION_DENIED)
    async with envelopes.grpc(
        "ann", bearer=None, certificate=envelopes.certificates.client_of_host("ann.example")
    ) as line:
        assert (await line.send(ann.signed(intent="inform"))).accepted
    async with envelopes.grpc("bob", certificate=certificate) as line:
        await refused(line.send(bob.signed()), "4.03", Code.PERMISSION_DENIED)


async def test_e53_a_certificate_of_another_authority_is_no_certificate(
    envelopes: EnvelopeServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = type(envelopes.certificates)(tmp_path_factory.mktemp("authority"), "a stranger")
    async with envelopes.grpc("ann", certificate=stranger.client(envelopes.peers["ann"].did)) as line:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await line.send(line.peer.signed())
        assert caught.value.code() is Code.UNAVAILABLE


def handshaken(envelopes: EnvelopeServer, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = envelopes.grpc_target.partition(":")
    return context.wrap_socket(socket.create_connection((host, int(port)), PATIENCE_S), server_hostname="localhost")


def test_e48_tls_1_2_and_plain_connections_fail(envelopes: EnvelopeServer) -> None:
    trust = envelopes.certificates.trust()
    trust.set_alpn_protocols(["h2"])
    with handshaken(envelopes, trust) as secured:
        assert (secured.version(), secured.selected_alpn_protocol()) == ("TLSv1.3", "h2")
    old = ssl.create_default_context(cafile=str(envelopes.certificates.authority))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshaken(envelopes, old)
    host, _, port = envelopes.grpc_target.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert not plain.recv(1000).startswith(b"\x00\x00"), "no frame of HTTP/2 comes"


def raw_answer(envelopes: EnvelopeServer, data: bytes, *, ends: bool = True, path: str = "Send") -> dict[str, str]:
    """The trailers with which bytes that no library would send are answered."""
    trust = envelopes.certificates.trust()
    trust.set_alpn_protocols(["h2"])
    token = envelopes.tokens[envelopes.peers["ann"].did]
    with handshaken(envelopes, trust) as secured:
        connection = h2.connection.H2Connection()
        connection.initiate_connection()
        headers = {
            ":method": "POST",
            ":path": f"/uamp.v1.Agent/{path}",
            ":scheme": "https",
            ":authority": "localhost",
            "te": "trailers",
            "content-type": "application/grpc",
            "authorization": f"Bearer {token}",
        }
        connection.send_headers(1, list(headers.items()))
        connection.send_data(1, data, end_stream=ends)
        secured.sendall(connection.data_to_send())
        found: dict[str, str] = {}
        while "grpc-status" not in found:
            received = secured.recv(65536)
            assert received, "closed without a status"
            for event in connection.receive_data(received):
                for name, value in getattr(event, "headers", None) or ():
                    found[bytes(name).decode()] = bytes(value).decode()
    return found


def prefixed(data: bytes, size: int | None = None, *, compressed: bool = False) -> bytes:
    return struct.pack(">BI", compressed, len(data) if size is None else size) + data


@pytest.mark.parametrize(
    ("status", "data", "ends"),
    [
        (Code.RESOURCE_EXHAUSTED, prefixed(b"", 2**32 - 1), False),
        (Code.RESOURCE_EXHAUSTED, prefixed(b"x" * 1000, 2**31), False),
        (Code.INVALID_ARGUMENT, prefixed(b"x" * 10, 20), True),
        (Code.INVALID_ARGUMENT, b"\x00\x00", True),
        (Code.INVALID_ARGUMENT, b"", True),
        (Code.INVALID_ARGUMENT, prefixed(b"\xff" * 20), True),
        (Code.UNIMPLEMENTED, prefixed(b"x" * 20, compressed=True), True),
    ],
    ids=[
        "4 GiB announced",
        "2 GiB announced",
        "cut off",
        "cut off in its length",
        "nothing",
        "no protobuf",
        "compressed",
    ],
)
def test_e51_messages_that_no_library_sends_are_refused(
    envelopes: EnvelopeServer, status: Code, data: bytes, ends: bool
) -> None:
    """By the length that is announced, before it has come."""
    assert raw_answer(envelopes, data, ends=ends)["grpc-status"] == str(status.value[0])
