"""W9: lists with 1,000,000 sessions: pages at any depth, and a filter by metadata that keeps 0.2 %; by library and through the API."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

from benchmarks.findings import Finding, percentile, scaled
from benchmarks.processes import Roles, Sample
from benchmarks.servers import BenchServers
from benchmarks.serving import Place, prepared, start_api
from benchmarks.session_rows import TEAMS, make_sessions, places_of
from perdure.api.cursors import to_cursor
from perdure.store.database import Database
from perdure.store.sessions import list_sessions
from perdure.store.waits import open_waits

At: TypeAlias = tuple[datetime, str] | None
"""Where the page before ended; None for the first page."""

_SESSIONS = 1_000_000
_PAGES = 400
_FEWEST_PAGES = 20
_ROWS = 50
_FIRST_PAGES = 4
"""Each so many pages one is the first."""
_TENANT = "default"
_LIMIT_PAGE_MS = 10.0
_LIMIT_FILTER_MS = 50.0
_WARM_PAGES = 10


@dataclass(frozen=True)
class _List:
    """A list: how the library reads a page of it, and where the API has it."""

    read: Callable[[Database, At], Awaitable[Sequence[object]]]
    path: str
    query: Mapping[str, str]


def _of_status(status: str | None) -> _List:
    return _List(
        lambda database, at: list_sessions(database, _TENANT, status=status, before=at, limit=_ROWS),
        "/api/sessions",
        {} if status is None else {"status": status},
    )


_LISTS = {
    "sessions": _of_status(None),
    "idle sessions": _of_status("idle"),
    "running sessions": _of_status("running"),
    "open waits": _List(lambda database, at: open_waits(database, _TENANT, after=at, limit=_ROWS), "/api/waits", {}),
}
_NONE = {
    "a key and a status": {"metadata": ["priority:1"], "status": ["running"]},
    "two keys": {"metadata": ["team:team 1", "priority:2"]},
}
"""What no session has both of, though 20 %, 5 % or 0.2 % have either: the worst that a list can be asked for here."""


async def run(servers: BenchServers, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pages of each list. Options: "scale", 1 by default, of the sessions and the pages.

    Raises:
        RuntimeError: a page did not come, or was empty.
    """
    place = await prepared(servers, "w9")
    count, pages = scaled(options, _SESSIONS), max(_FEWEST_PAGES, scaled(options, _PAGES))
    began = time.perf_counter()
    await make_sessions(place.database_url, count)
    found = [Finding("rows made", time.perf_counter() - began, "s")]
    places = await _places(place, count, pages)
    roles = Roles({"client": [os.getpid()], "postgres": servers.pids["postgres"]})
    database = Database(place.database_url, pool_size=1)
    for name, listed in _LISTS.items():
        before = roles.sample()
        found += _findings(f"{name}, library", await _by_library(database, listed, places), _LIMIT_PAGE_MS)
        found.append(_cpu(f"{name}, library", roles, before, pages))
    await database.close()
    front = await start_api(place)
    roles = Roles({"api": [front.pid], "postgres": servers.pids["postgres"]})
    try:
        for name, listed in _LISTS.items():
            before = roles.sample()
            taken = await asyncio.to_thread(_through_api, front.url, listed, places)
            found += _findings(f"{name}, API", taken, _LIMIT_PAGE_MS)
            found.append(_cpu(f"{name}, API", roles, before, pages))
        found += await asyncio.to_thread(_filtered, front.url, places)
        found += await asyncio.to_thread(_empty, front.url, pages)
    finally:
        await front.stop()
    counts = {"sessions": count, "pages": pages, "rows": _ROWS, "kept_by_filter": count // TEAMS}
    return [one.to_row("W9", counts) for one in found]


async def _places(place: Place, count: int, pages: int) -> list[At]:
    """The first page each fourth time, else one at any depth."""
    chance = Random(9)
    deep = await places_of(place.database_url, [chance.randint(count // 100, count) for _ in range(pages)])
    return [None if number % _FIRST_PAGES == 0 else at for number, at in enumerate(deep)]


async def _by_library(database: Database, listed: _List, places: Sequence[At]) -> list[float]:
    taken: list[float] = []
    for at in (*places[:_WARM_PAGES], *places):
        began = time.perf_counter()
        rows = await listed.read(database, at)
        taken.append((time.perf_counter() - began) * 1000)
        if not rows and at is None:
            raise RuntimeError("W9: the first page is empty")
    return taken[_WARM_PAGES:]


def _through_api(url: str, listed: _List, places: Sequence[At]) -> list[float]:
    """Milliseconds of each page, by a connection that is kept; the client's own reading of the JSON is not in it."""
    connection = _connection(url)
    taken: list[float] = []
    for at in (*places[:_WARM_PAGES], *places):
        cursor = {} if at is None else {"after": to_cursor(at[0].isoformat(), at[1])}
        took, _ = _get(connection, listed.path, {**listed.query, **cursor, "limit": str(_ROWS)})
        taken.append(took)
    connection.close()
    return taken[_WARM_PAGES:]


def _filtered(url: str, places: Sequence[At]) -> list[Finding]:
    """Pages of one team's sessions, at the first page and at any depth.

    Raises:
        RuntimeError: a session of another team was shown, or none on the first page.
    """
    connection = _connection(url)
    taken: list[float] = []
    for number, at in enumerate(places):
        team = f"team {number % TEAMS}"
        cursor = {} if at is None else {"after": to_cursor(at[0].isoformat(), at[1])}
        query = {"metadata": f"team:{team}", **cursor, "limit": str(_ROWS)}
        took, body = _get(connection, "/api/sessions", query)
        teams = {row["metadata"].get("team") for row in cast("list[dict[str, Any]]", body["sessions"])}
        if teams - {team} or (at is None and not teams):
            raise RuntimeError(f"W9: the list of {team!r} shows {teams}")
        taken.append(took)
    connection.close()
    return _findings("sessions by metadata, API", taken, _LIMIT_FILTER_MS)


def _empty(url: str, pages: int) -> list[Finding]:
    connection = _connection(url)
    found: list[Finding] = []
    for name, query in _NONE.items():
        taken = [_get(connection, "/api/sessions", {**query, "limit": [str(_ROWS)]})[0] for _ in range(pages)]
        found += _findings(f"sessions with {name} that none has both of, API", taken, None)
    connection.close()
    return found


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)


def _get(
    connection: http.client.HTTPConnection, path: str, query: Mapping[str, str | Sequence[str]]
) -> tuple[float, dict[str, Any]]:
    """Milliseconds until the whole answer was there, and the answer. Raises RuntimeError if it is another than 200."""
    began = time.perf_counter()
    connection.request("GET", f"{path}?{urlencode(query, doseq=True)}")
    response = connection.getresponse()
    body = response.read()
    took = (time.perf_counter() - began) * 1000
    if response.status != 200:
        raise RuntimeError(f"W9: {path} was answered {response.status}: {body[:300]!r}")
    return took, json.loads(body)


def _cpu(name: str, roles: Roles, before: Sample, pages: int) -> Finding:
    """What all processes used for a page: it says more than the time where others use the machine too."""
    used = roles.sample().cpu_ms
    shares = {role: (used[role] - before.cpu_ms[role]) / (pages + _WARM_PAGES) for role in used}
    why = ", ".join(f"{role} {share:.2f}" for role, share in shares.items())
    return Finding(f"{name}, CPU per page", sum(shares.values()), "ms", why=why)


def _findings(name: str, taken: list[float], limit_ms: float | None) -> list[Finding]:
    return [
        Finding(f"{name}, p50", percentile(taken, 0.5), "ms"),
        Finding(f"{name}, p99", percentile(taken, 0.99), "ms", at_most=limit_ms),
    ]
