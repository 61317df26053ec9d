"""The HTTP client of each event loop: made at its first request, shared by all, closed when the loop ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from weakref import WeakKeyDictionary

import httpx

from perdure.upp.provider_config import Transport


@dataclass(frozen=True, slots=True)
class _Kept:
    client: httpx.AsyncClient
    closer: AsyncGenerator[None, None]


# By the identity of the transport, which need not be hashable; its client keeps it alive, so that no other gets its id.
_kept: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Kept]] = WeakKeyDictionary()


async def client_of(transport: Transport | None) -> httpx.AsyncClient:
    """Returns the running loop's client, or its client for a transport.

    No cookie is kept: what a vendor sets for one account is none of another's business.
    """
    loop = asyncio.get_running_loop()
    of_loop = _kept.setdefault(loop, {})
    kept = of_loop.get(id(transport))
    if kept is None:
        client = httpx.AsyncClient(
            verify=_certificates(),
            transport=None if transport is None else _Adapted(transport),
            limits=httpx.Limits(max_connections=None),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
        )
        kept = of_loop[id(transport)] = _Kept(client, _close_with_loop(client, of_loop, id(transport)))
        await anext(kept.closer)
    return kept.client


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust; reading them takes a quarter of a second, so a process does it once."""
    return httpx.create_ssl_context()


async def _close_with_loop(
    client: httpx.AsyncClient, of_loop: dict[int, _Kept], key: int
) -> AsyncGenerator[None, None]:
    """Closes the client when the loop shuts its asynchronous generators down, as every `asyncio.run` does."""
    try:
        yield
    finally:
        del of_loop[key]  # the generator knows its loop, which would keep its own entry alive
        await client.aclose()


class _Adapted(httpx.AsyncBaseTransport):
    """A transport that may have nothing but the one method."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        if isinstance(self._transport, httpx.AsyncBaseTransport):
            await self._transport.aclose()
