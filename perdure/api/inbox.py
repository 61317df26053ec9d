"""What comes for a request, on its way to the app.

hypercorn's own queue keeps a whole connection waiting if the app is done with a request whose body still comes; here nothing
waits for a request that is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.config import Config
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

GOODBYE_SECONDS = 10.0
"""For so long the client of a WebSocket that we have closed is heard, until it has read so."""

_ENDS = frozenset({"http.disconnect", "websocket.disconnect"})


class Inbox(asyncio.Queue[ASGIReceiveEvent]):
    """The messages of one request that its app has not received yet."""

    _is_over = False

    async def put(self, item: ASGIReceiveEvent) -> None:
        """Add a message once there is room. A disconnect takes the place of all that was not received."""
        if self._is_over:
            return
        if item["type"] not in _ENDS:
            await super().put(item)
            return
        self._is_over = True
        while not self.empty():
            self.get_nowait()
        self.put_nowait(item)

    async def until_left(self) -> None:
        """Drop what comes until the client has left, if it does so soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                while not (self._is_over and self.empty()):
                    await self.get()


class Goodbye:
    """The messages that the app of a WebSocket sends."""

    def __init__(self, send: Callable[[ASGISendEvent | None], Awaitable[None]]) -> None:
        """Hand on to `send`."""
        self._send = send
        self._is_accepted = False
        self.is_said = False
        """Whether it has closed a connection that it had accepted."""

    async def send(self, message: ASGISendEvent | None) -> None:
        """Hand on a message."""
        kind = None if message is None else message["type"]
        self._is_accepted = self._is_accepted or kind == "websocket.accept"
        self.is_said = self.is_said or (kind == "websocket.close" and self._is_accepted)
        await self._send(message)


class Requests(TaskGroup):
    """The requests of a connection, each with an inbox."""

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Have the app serve a request.

        Returns:
            What takes messages for it.
        """
        inbox = Inbox(config.max_app_queue_size)
        self.spawn(self._answer, app, config, scope, inbox, send)  # pyright: ignore[reportUnknownMemberType]
        return inbox.put

    async def _answer(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        inbox: Inbox,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> None:
        goodbye = Goodbye(send)
        try:
            await app(scope, inbox.get, goodbye.send, partial(self._loop.run_in_executor, None), _only_of_wsgi)
            if goodbye.is_said:  # a connection that is closed with something unread takes the goodbye with it
                await inbox.until_left()
        except Exception:  # noqa: BLE001 - whatever the app raised: it is written down, and the request ends
            await config.log.exception("Error in ASGI Framework")
        finally:
            await send(None)


def _only_of_wsgi(*_: Any) -> None:
    raise NotImplementedError("an ASGI app calls nothing in another thread's loop")
