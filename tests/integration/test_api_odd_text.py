"""Text that JSON can carry and PostgreSQL cannot keep as text: wherever a request has it, the answer is no 5xx."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest

from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack
from tests.integration.test_api_document import JSON, OPERATIONS, examples_of, named_of, things_of
from tests.integration.test_api_document import api as api

ODD = {"NUL": "a\0b", "lone surrogate": "a\ud800b"}
SHORT_S = 0.2
STILL_AT_WORK_S = 3.0


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a JSON value has text."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from places(item, (*path, index))


def replaced(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    """The value with a text in the place of one that it has."""
    if not path:
        return text
    copy: Any = list(cast("list[Any]", value)) if isinstance(value, list) else dict(cast("dict[str, Any]", value))
    copy[path[0]] = replaced(copy[path[0]], path[1:], text)
    return copy


def requests_of(url: str, name: str, known: dict[str, str], odd: str) -> Iterator[tuple[str, httpx.Request]]:
    """Each request of an operation's examples with the odd text in one place of its body, query or path."""
    operation = OPERATIONS[name]
    named = named_of(operation.path, known)
    paths = {item.name: named.get(item.name, "x") for item in operation.path_parameters}
    headers = {item.name: named[item.name] for item in operation.headers if item.name in named}
    method = operation.method.upper()

    def made(paths: dict[str, str], body: Any = None, query: dict[str, str] | None = None) -> httpx.Request:
        path = operation.path.format(**{key: quoted(text) for key, text in paths.items()})
        pairs = "&".join(f"{key}={quoted(text)}" for key, text in (query or {}).items())
        address = f"{url}{path}?{pairs}"
        if body is None:
            return httpx.Request(method, address, headers=headers)
        return httpx.Request(method, address, headers={**headers, "content-type": JSON}, content=json.dumps(body))

    for body in examples_of(name, known):
        for place in () if isinstance(body, bytes) else places(body):
            yield f"{name} body {place}", made(paths, hastened(replaced(body, place, odd)))
    for parameter in paths:
        yield f"{name} path {parameter}", made({**paths, parameter: odd})
    for parameter in operation.query:
        yield f"{name} query {parameter.name}", made(paths, query={parameter.name: odd})


def quoted(text: str) -> str:
    """Text as a part of an address."""
    return quote(text, safe="", errors="surrogatepass")


def hastened(body: dict[str, Any]) -> dict[str, Any]:
    """The body, of a request that waits for nothing long."""
    return {**body, "mode": "wait", "wait_s": SHORT_S} if body.get("mode") in ("wait", "stream") else body


@pytest.mark.parametrize("odd", ODD)
def test_text_that_postgresql_does_not_keep_makes_no_server_fail(stack: Stack, api: ApiProcess, odd: str) -> None:
    """In any place of any request: refused where it names something, kept whole where it is said."""
    known = things_of(api, stack)
    failed: list[str] = []
    taken = 0
    with httpx.Client(timeout=STILL_AT_WORK_S) as client:
        for name in OPERATIONS:
            for where, request in requests_of(api.url, name, known, ODD[odd]):
                try:
                    response = client.send(request, stream=True)
                except httpx.ReadTimeout:  # a run was begun, which waits for something
                    taken += 1
                    continue
                response.close()
                taken += response.is_success
                if response.status_code >= 500:
                    failed.append(f"{where}: {response.status_code}")
    assert failed == []
    assert taken > 20
