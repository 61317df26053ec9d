"""The body of a vendor's answer: read up to a limit, line by line, or as JSON."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

import httpx

from perdure.upp.json_value import JSONObject, loads, well_formed


async def read_body(response: httpx.Response, limit: int, body: bytearray) -> None:
    """Adds the answer's body, up to some bytes more than the limit."""
    chunks = cast("AsyncGenerator[bytes, None]", response.aiter_bytes())
    async with aclosing(chunks):
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                return


async def body_lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yields the lines that hold something, split at line feeds only: text may hold every other line end."""
    chunks = cast("AsyncGenerator[bytes, None]", response.aiter_bytes())
    rest = bytearray()
    async with aclosing(chunks):
        async for chunk in chunks:
            rest += chunk
            if b"\n" in chunk:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    if line.strip():
                        yield bytes(line)
    if rest.strip():
        yield bytes(rest)


def json_object(data: bytes | bytearray) -> JSONObject | None:
    """Returns the object that JSON text holds; None if it holds something else or is no JSON."""
    try:
        value = well_formed(loads(bytes(data)))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
