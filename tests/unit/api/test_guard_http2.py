"""Early answers over HTTP/2, by the real server: the connection outlives them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from hypercorn.asyncio import serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.config import Config

from tests.unit.api.test_guard import LIMIT, check_problem, guarded


@asynccontextmanager
async def served(**settings: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that speaks HTTP/2 alone, over one connection."""
    stop = asyncio.Event()
    config = Config()
    config.accesslog = None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config.bind = [f"fd://{listener.dup().detach()}"]
        serving = asyncio.create_task(serve(cast(Any, guarded(**settings)), config, shutdown_trigger=stop.wait))
        try:
            async with httpx.AsyncClient(
                http1=False,
                http2=True,
                base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
                limits=httpx.Limits(max_connections=1),
                timeout=60,
            ) as client:
                yield client
        finally:
            stop.set()
            await serving


@pytest.mark.parametrize("size", [100, LIMIT * 10, LIMIT * 100], ids=["small", "large", "past the window"])
async def test_an_early_answer_does_not_end_the_connection(size: int) -> None:
    """Refused for its length, for its missing key, and for its path: the next request goes over the same connection."""
    async with served(is_open=False) as client:
        for path, headers in (("/api/echo", {}), ("/api/echo", {"X-Name": "ada"}), ("/nowhere", {})):
            sent = await asyncio.gather(
                client.post(path, content=b"1" * size, headers={"Content-Type": "application/json", **headers}),
                client.get("/health"),
            )
            assert [response.http_version for response in sent] == ["HTTP/2", "HTTP/2"]
            if size > LIMIT:
                check_problem(sent[0], 413, "too_large")
            assert sent[1].json() == "ok"
