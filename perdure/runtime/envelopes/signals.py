"""News of exchanges: an ACK, a cancel or new frames, whichever process made them, wake whoever streams.

News only says where to look. What is lost costs a stream its next look on its own, never a frame.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator

from perdure.store.database import Database, is_away
from perdure.store.events import Announcer
from perdure.uap.session_key import SessionKey

CHANNEL = "perdure_envelopes"
_RECONNECT_SECONDS = 0.5


class Watch:
    """What one stream hears of its exchange."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self._news = asyncio.Event()

    def tell(self) -> None:
        """There is news."""
        self._news.set()

    async def heard(self) -> None:
        """Wait for news that came since this was last waited for."""
        await self._news.wait()
        self._news.clear()


class ExchangeSignals:
    """One listening connection for all streams of a process; nothing is connected before the first."""

    def __init__(self, database: Database, tenant: str) -> None:
        """Hear and tell of the exchanges of one tenant."""
        self._database = database
        self._tenant = tenant
        self._announcer = Announcer(database, CHANNEL)
        self._watches: dict[str, set[Watch]] = {}
        self._listening: asyncio.Task[None] | None = None

    def announce(self, exchange: str) -> None:
        """Wake the streams of an exchange, here and in other processes. To be called after the commit."""
        self._tell(exchange)
        self._announcer.changed(SessionKey(self._tenant, exchange))

    @contextlib.contextmanager
    def watch(self, exchange: str) -> Generator[Watch]:
        """Hear of one exchange for as long as the block lasts."""
        watch = Watch()
        self._watches.setdefault(exchange, set()).add(watch)
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen(), name="listen for news of exchanges")
        try:
            yield watch
        finally:
            watches = self._watches[exchange]
            watches.discard(watch)
            if not watches:
                del self._watches[exchange]

    async def close(self) -> None:
        """Tell what is still to be told, and stop listening."""
        await self._announcer.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            self._listening = None

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:
                if not is_away(error):
                    raise
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        connection = await self._database.connect_alone()
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            for exchange in list(self._watches):
                self._tell(exchange)
            await ended.wait()
        finally:
            connection.terminate()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for line in str(payload).splitlines():
            tenant, _, exchange = line.partition("/")
            if tenant == self._tenant:
                self._tell(exchange)

    def _tell(self, exchange: str) -> None:
        for watch in self._watches.get(exchange, ()):
            watch.tell()
