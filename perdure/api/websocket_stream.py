"""A WebSocket below the app: hypercorn's, but that a message which is too long ends it, whatever its client does then.

hypercorn keeps all that comes behind such a message, and where the client's goodbye comes together with the message's end,
it never hears it: the connection stays.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypercorn.protocol import h2, h3, h11
from hypercorn.protocol.events import StreamClosed
from hypercorn.protocol.ws_stream import FrameTooLargeError, WSStream
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping
from wsproto.frame_protocol import CloseReason

from perdure.api.inbox import GOODBYE_SECONDS


class WebSocketStream(WSStream):
    """One WebSocket."""

    _is_refused = False

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            match event:
                case Message():
                    await self._take(cast(Any, event))
                case Ping():
                    await self._send_wsproto_event(event.response())
                case CloseConnection():
                    if self.connection.state == ConnectionState.REMOTE_CLOSING:
                        await self._send_wsproto_event(event.response())
                    await self._end()
                case _:
                    pass

    async def _take(self, event: Message[Any]) -> None:
        """Take a piece of a message. Behind one that was too long nothing is kept."""
        stream = cast(Any, self)  # hypercorn's own types are partial
        if self._is_refused:
            return
        try:
            stream.buffer.extend(event)
        except FrameTooLargeError:
            self._is_refused = True
            stream.buffer.clear()
            await self._send_wsproto_event(CloseConnection(code=CloseReason.MESSAGE_TOO_BIG))
            stream.task_group.spawn(self._end_soon)
            return
        if event.message_finished:
            await stream.app_put(stream.buffer.to_message())
            stream.buffer.clear()

    async def _end_soon(self) -> None:
        """End, also where the client does not say goodbye."""
        await asyncio.sleep(GOODBYE_SECONDS)
        if not self.closed:
            await self._end()

    async def _end(self) -> None:
        await self.send(StreamClosed(stream_id=self.stream_id))


def install() -> None:
    """Have hypercorn's protocols make WebSockets of this kind: none of them can be told to."""
    for protocol in (h11, h2, h3):
        cast(Any, protocol).WSStream = WebSocketStream
