"""Lets pages of other servers reach some paths and nothing else: CORS for those alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

ANY = "*"


class PageOrigins:
    """An ASGI middleware that stands before the guard: a browser asks first, without a key, whether a page may ask."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        origins: Sequence[str],
        serves: Callable[[str], bool],
        methods: Sequence[str],
        headers: Sequence[str],
        exposed: Sequence[str] = (),
    ) -> None:
        """Stand before `app`.

        Args:
            app: what is behind.
            origins: of the pages, such as `http://localhost:8233`; or `*`: any that has a key. While nobody is asked who
                they are, the guard lets in only those that are named.
            serves: whether a path is one that pages may reach.
            methods: that they may use.
            headers: that they may send.
            exposed: headers of answers that they may read.
        """
        self._app = app
        self._origins = frozenset(origin.lower() for origin in origins if origin != ANY)
        self._serves = serves
        self._cors = CORSMiddleware(
            self._admitted,
            allow_origins=list(origins),
            allow_methods=list(methods),
            allow_headers=list(headers),
            expose_headers=list(exposed),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through; that of a page which may ask gets the headers that its browser needs."""
        is_open_to_pages = scope["type"] == "http" and self._serves(scope["path"])
        await (self._cors if is_open_to_pages else self._app)(scope, receive, send)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The guard refuses pages of other servers while nobody is asked who they are; these were named."""
        scope["headers"] = [(name, value) for name, value in scope["headers"] if not self._is_named(name, value)]
        await self._app(scope, receive, send)  # the same scope: those before this one read the route from it

    def _is_named(self, name: bytes, value: bytes) -> bool:
        return name == b"origin" and value.decode("latin-1").lower() in self._origins
