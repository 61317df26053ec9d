"""A way to a server that a test can cut: nothing gets through then, and nobody is let in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Relay:
    """Hands bytes on between whoever connects and one port of this machine.

    Attributes:
        port: where it listens.
        is_cut: whether connections are refused.
    """

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.is_cut = False

    def cut(self) -> None:
        """Break everything off, now and until `mend`."""
        self.is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """Let through what comes from now on."""
        self.is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end on either side."""
        if self.is_cut:
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to_port)
        ends = {writer, to_server}
        self._open |= ends
        try:
            ways = [asyncio.create_task(_pass_on(*way)) for way in ((reader, to_server), (from_server, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def relay_to(port: int) -> AsyncGenerator[Relay, None]:
    """A relay, open inside the block."""
    relay = Relay(port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        relay.cut()
        await server.wait_closed()
