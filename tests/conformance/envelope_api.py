"""The API in the test's own process, on a thread with a loop of its own, so that its clock can be put forward."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time

import httpx

from perdure.api.backend import Backend
from perdure.api.serve import serve_on
from perdure.config import Settings


class LocalApi:
    """The API in this process, on a thread and a loop of its own."""

    def __init__(self, backend: Backend, listener: socket.socket, settings: Settings) -> None:
        self._backend, self._listener, self._settings = backend, listener, settings
        self._failed: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 it is raised where the server is stopped
            self._failed = error

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            await serve_on(self._listener, self._backend, self._settings, self._stop)
        finally:
            await self._backend.close()

    def wait_ready(self, url: str, trust: ssl.SSLContext) -> None:
        """Return once it answers."""
        end = time.monotonic() + 60
        with httpx.Client(base_url=url, verify=trust, http2=True, timeout=30) as client:
            while True:
                assert self._thread.is_alive(), self._failed
                try:
                    assert client.get("/health").status_code == 200
                except httpx.TransportError:
                    assert time.monotonic() < end, "the API does not answer"
                    time.sleep(0.05)
                else:
                    return

    def stop(self) -> None:
        """Have it end, and raise what has ended it before."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive(), "the API does not end"
        if self._failed is not None:
            raise self._failed
