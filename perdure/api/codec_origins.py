"""Lets pages of Temporal's UI reach the codec, and nothing else: CORS for its routes alone."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

_PATHS = ("/api/codec/encode", "/api/codec/decode")


class CodecOrigins:
    """An ASGI middleware that stands before the guard: a browser asks first, without a key, whether a page may ask."""

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        """Stand before `app`.

        Args:
            app: what is behind.
            origins: of the pages, such as `http://localhost:8233`.
        """
        self._app = app
        self._origins = frozenset(origin.lower() for origin in origins)
        self._cors = CORSMiddleware(
            self._admitted,
            allow_origins=list(origins),
            allow_methods=["POST"],
            allow_headers=["authorization", "content-type", "x-namespace"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through; that of a page which may ask gets the headers that its browser needs."""
        is_codec = scope["type"] == "http" and scope["path"] in _PATHS
        await (self._cors if is_codec else self._app)(scope, receive, send)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The guard refuses pages of other servers while nobody is asked who they are; these were named."""
        headers = [(name, value) for name, value in scope["headers"] if not self._is_named(name, value)]
        await self._app({**scope, "headers": headers}, receive, send)

    def _is_named(self, name: bytes, value: bytes) -> bool:
        return name == b"origin" and value.decode("latin-1").lower() in self._origins
