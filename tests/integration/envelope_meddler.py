"""Servers between a client and the real one: one that changes, refuses and loses what passes, one that cuts connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

import httpx
import hypercorn.asyncio
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.conformance.envelope_certificates import EnvelopeCertificates

Refusal: TypeAlias = tuple[int, dict[str, str], bytes]


@dataclass
class Meddler:
    """What is done to what passes.

    Attributes:
        bend: changes each part of a stream.
        refusals: answers in place of the next envelopes': status, headers and body.
        losses: how many answers to envelopes get lost, after the server has them.
        posted: bodies that came.
    """

    bend: Callable[[bytes], bytes] = lambda data: data
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    losses: int = 0
    posted: list[bytes] = field(default_factory=list[bytes])
    url: str = ""


@asynccontextmanager
async def meddling(target: str, certificates: EnvelopeCertificates) -> AsyncGenerator[Meddler]:
    """A server with a good certificate before the real one."""
    meddler = Meddler()
    async with httpx.AsyncClient(
        base_url=target, verify=certificates.trust(), http1=False, http2=True, timeout=60
    ) as behind:

        async def post(request: Request) -> Response:
            body = await request.body()
            meddler.posted.append(body)
            if meddler.refusals:
                status, headers, refusal = meddler.refusals.pop(0)
                return Response(refusal, status, headers)
            answer = await behind.post(request.url.path, content=body, headers=_passed(request))
            if meddler.losses:
                meddler.losses -= 1
                return Response("", 502)
            return Response(answer.content, answer.status_code, dict(answer.headers))

        async def get(request: Request) -> Response:
            asked = behind.build_request("GET", request.url.path, headers=_passed(request))
            answer = await behind.send(asked, stream=True)

            async def parts() -> AsyncGenerator[bytes]:
                try:
                    async for part in answer.aiter_bytes():
                        yield meddler.bend(part)
                finally:
                    await answer.aclose()

            return StreamingResponse(parts(), answer.status_code, dict(answer.headers))

        app = Starlette(
            routes=[Route("/{path:path}", post, methods=["POST"]), Route("/{path:path}", get, methods=["GET"])]
        )
        config, stop = Config(), asyncio.Event()
        listener = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        listener.close()
        await listener.wait_closed()
        config.bind = [f"127.0.0.1:{port}"]
        config.certfile, config.keyfile = str(certificates.server.cert), str(certificates.server.key)
        config.accesslog = config.errorlog = None
        meddler.url = f"https://localhost:{port}"
        task = asyncio.ensure_future(cast(Any, hypercorn.asyncio).serve(app, config, shutdown_trigger=stop.wait))
        try:
            await _answering(port, certificates.trust())
            yield meddler
        finally:
            stop.set()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class Cutter:
    """Passes bytes on until it cuts what is connected."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Close all that is connected, in the middle of whatever passes."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def passing(self, near: asyncio.StreamReader, back: asyncio.StreamWriter, host: str, port: int) -> None:
        """One connection."""
        self.connections += 1
        far, onward = await asyncio.open_connection(host, port)
        self._open |= {back, onward}
        try:
            await asyncio.gather(_pump(near, onward), _pump(far, back))
        finally:
            self._open -= {back, onward}
            for writer in (back, onward):
                writer.close()


@asynccontextmanager
async def cutting(target: str) -> AsyncGenerator[Cutter]:
    """A way to the real server that can be cut."""
    place = urlsplit(target)
    cutter = Cutter()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(cutter.passing(reader, writer, "127.0.0.1", place.port or 443))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    cutter.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        yield cutter
    finally:
        cutter.cut()
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _passed(request: Request) -> dict[str, str]:
    names = ("authorization", "content-type", "accept", "last-event-id")
    return {name: request.headers[name] for name in names if name in request.headers}


async def _answering(port: int, trust: ssl.SSLContext) -> None:
    """Returns once something answers at a port."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("localhost", port, ssl=trust)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
