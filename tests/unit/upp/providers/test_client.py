"""Connections: shared, never waited for, closed when nobody reads, gone with their event loop."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from perdure.upp.providers._http import post_json, stream_events, stream_lines
from tests.clients.vendor_server import VendorServer, json_reply, lines_reply, sse_reply
from tests.unit.upp.providers.asking import (
    EVERY_WAY,
    Way,
    asked,
    events_of,
    failure_of,
    lines_of,
)

ENDLESS = r'sse_reply("data: {}\n\n").then(60.0)'
ROOT = Path(__file__).parents[4]

# Not every complaint: asyncio closes the nested generators of a stream that nobody closed all at once, and may say so.
LEAK = re.compile(r"Warning|unclosed|never awaited|never retrieved|destroyed")


async def test_requests_after_one_another_share_a_connection(vendor: VendorServer) -> None:
    vendor.replies(
        json_reply({}),
        sse_reply("data: {}\n\n"),
        sse_reply("data: {}\n\ndata: [DONE]\n\n", piece=4),
        lines_reply("{}\n"),
        json_reply({}, status=429),
        json_reply({}),
    )
    await post_json(asked(vendor))
    await events_of(asked(vendor))
    await events_of(asked(vendor))
    await lines_of(asked(vendor))
    await failure_of(asked(vendor))
    await post_json(asked(vendor))
    assert (vendor.connections, len(vendor.received)) == (1, 6)


async def test_many_requests_at_once_do_not_wait_for_one_another(vendor: VendorServer) -> None:
    """All are out before one of them is answered."""
    vendor.replies(json_reply({}).after(600.0))
    asking = [asyncio.create_task(post_json(asked(vendor))) for _ in range(120)]
    async with asyncio.timeout(50):
        while len(vendor.received) < 120:  # noqa: ASYNC110  # httpx alone would stop at 100
            await asyncio.sleep(0.01)
    for task in asking:
        task.cancel()
    assert all(isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*asking, return_exceptions=True))
    assert vendor.connections == 120


@EVERY_WAY
async def test_a_cancelled_request_closes_its_connection(vendor: VendorServer, way: Way) -> None:
    vendor.replies(json_reply({}).after(60.0))
    task = asyncio.create_task(failure_of(asked(vendor, timeout=60), way))
    await vendor.asked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await vendor.hung_up()


async def test_a_closed_stream_of_events_closes_its_connection(vendor: VendorServer) -> None:
    vendor.replies(sse_reply('data: {"n": 1}\n\n').then(60.0))
    stream = stream_events(asked(vendor, timeout=60))
    assert (await anext(stream)).data == {"n": 1}
    await stream.aclose()
    await vendor.hung_up()


async def test_a_closed_stream_of_lines_closes_its_connection(vendor: VendorServer) -> None:
    vendor.replies(lines_reply('{"n": 1}\n').then(60.0))
    stream = stream_lines(asked(vendor, timeout=60))
    assert await anext(stream) == {"n": 1}
    await stream.aclose()
    await vendor.hung_up()


async def test_a_stream_that_is_not_read_sends_nothing(vendor: VendorServer) -> None:
    await stream_events(asked(vendor)).aclose()
    assert vendor.connections == 0


async def test_a_vendor_that_does_not_close_after_done_is_left(vendor: VendorServer) -> None:
    vendor.replies(sse_reply('data: {"n": 1}\n\ndata: [DONE]\n\n').then(60.0))
    assert [event.data for event in await events_of(asked(vendor, timeout=60))] == [{"n": 1}]
    await vendor.hung_up()


@pytest.mark.parametrize(
    ("reply", "reading"),
    [
        ("json_reply({})", "await post_json(request)"),
        (ENDLESS, "await anext(stream_events(request))"),
        (ENDLESS, "held.append(stream_events(request)); await anext(held[0])"),
        (
            "json_reply({}).after(60.0)",
            "held.append(asyncio.create_task(post_json(request))); await vendor.asked(); held[0].cancel()",
        ),
    ],
    ids=["read", "dropped", "abandoned", "cancelled"],
)
def test_nothing_of_it_outlives_its_event_loop(reply: str, reading: str) -> None:
    """Python's own checks, with warnings as errors, find no socket, task or generator left behind."""
    program = f"""
        import asyncio, gc
        from perdure.upp.provider_config import ProviderConfig
        from perdure.upp.providers import _client
        from perdure.upp.providers._http import VendorRequest, post_json, stream_events
        from tests.clients.vendor_server import VendorServer, json_reply, sse_reply

        held = []

        async def main():
            async with VendorServer() as vendor:
                vendor.replies({reply})
                request = VendorRequest("acme", vendor.url, {{}}, ProviderConfig())
                {reading}

        for _ in range(2):
            asyncio.run(main())
            held.clear()
            gc.collect()
        assert not list(_client._kept), "the loops are kept alive"
    """
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if LEAK.search(line)] == []
