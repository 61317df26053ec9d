"""The vendor on this machine says and keeps exactly what the tests rely on."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest

from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, lines_reply, sse_reply


async def raw_answer(vendor: VendorServer) -> bytes:
    """All bytes of one answer, as they come over the wire."""
    port = urlsplit(vendor.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_request_is_kept_as_it_was_sent(vendor: VendorServer) -> None:
    vendor.replies(json_reply({}))
    async with httpx.AsyncClient() as client:
        await client.post(f"{vendor.url}/v1/x?alt=sse", json={"a": "é"}, headers={"X-Thing": "One"})
    (received,) = vendor.received
    assert (received.method, received.path) == ("POST", "/v1/x?alt=sse")
    assert received.headers["x-thing"] == "One"
    assert received.json() == {"a": "é"}


async def test_replies_come_in_order_and_the_last_repeats(vendor: VendorServer) -> None:
    vendor.replies(json_reply(1), json_reply(2, status=503, headers={"retry-after": "7"}))
    async with httpx.AsyncClient() as client:
        answers = [await client.post(vendor.url) for _ in range(3)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, 1), (503, 2), (503, 2)]
    assert answers[1].headers["retry-after"] == "7"


async def test_a_connection_serves_several_requests(vendor: VendorServer) -> None:
    vendor.replies(sse_reply("data: 1\n\n"), json_reply({}))
    async with httpx.AsyncClient() as client:
        await client.post(vendor.url)
        await client.post(vendor.url)
    assert (vendor.connections, len(vendor.received)) == (1, 2)


async def test_requests_at_the_same_time_are_all_answered(vendor: VendorServer) -> None:
    vendor.replies(json_reply(1), json_reply(2).after(0.01), json_reply(3))
    async with httpx.AsyncClient() as client:
        answers = await asyncio.gather(*(client.post(vendor.url) for _ in range(3)))
    assert sorted(answer.json() for answer in answers) == [1, 2, 3]


async def test_a_whole_reply_goes_out_with_its_length(vendor: VendorServer) -> None:
    vendor.replies(Reply(200, {"content-type": "text/plain"}, [b"abc"]))
    assert await raw_answer(vendor) == b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nabc"


async def test_the_pieces_of_a_stream_go_out_as_chunks(vendor: VendorServer) -> None:
    vendor.replies(lines_reply("abcde", piece=2))
    head, body = (await raw_answer(vendor)).split(b"\r\n\r\n", 1)
    assert b"transfer-encoding: chunked" in head
    assert body == b"2\r\nab\r\n2\r\ncd\r\n1\r\ne\r\n0\r\n\r\n"


async def test_a_cut_ends_the_connection_inside_a_chunk(vendor: VendorServer) -> None:
    vendor.replies(sse_reply("data").then(CUT))
    assert (await raw_answer(vendor)).endswith(b"\r\n\r\n4\r\ndata\r\nff\r\n{")


async def test_a_cut_before_everything_sends_nothing(vendor: VendorServer) -> None:
    vendor.replies(Reply(pieces=[CUT]))
    assert await raw_answer(vendor) == b""


async def test_a_client_that_hangs_up_during_a_pause_is_noticed(vendor: VendorServer) -> None:
    vendor.replies(sse_reply("data: 1\n\n").then(60.0))
    async with httpx.AsyncClient() as client, client.stream("POST", vendor.url) as answer:
        async for _ in answer.aiter_raw():
            break
    await vendor.hung_up()


async def test_a_server_without_replies_says_so(vendor: VendorServer) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.post(vendor.url)
    assert (answer.status_code, answer.text) == (500, "the test gave the vendor server no reply")


async def test_a_server_ends_while_clients_are_connected() -> None:
    async with httpx.AsyncClient() as client, VendorServer() as vendor:
        vendor.replies(sse_reply("data: 1\n\n").then(60.0))
        async with client.stream("POST", vendor.url) as answer:
            chunks = answer.aiter_raw()
            await anext(chunks)
            await asyncio.wait_for(vendor.__aexit__(None, None, None), 60)
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(chunks)
