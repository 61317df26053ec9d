"""The one Temporal and the one PostgreSQL of all contestants, tuned as the embedded servers' users get them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import asyncpg
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client

from perdure.embedded.servers import EmbeddedServers

_SIZE = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'm') and n.nspname not in ('pg_catalog', 'information_schema')
"""


class BenchServers:
    """The servers of one run of the benchmark.

    Attributes:
        temporal: host and port.
        pids: of both, by role.
    """

    def __init__(self, embedded: EmbeddedServers) -> None:
        """Use servers that were started."""
        self.temporal = embedded.addresses.temporal
        self.pids: Mapping[str, Sequence[int]] = {name: [pid] for name, pid in embedded.pids.items()}
        self._url = embedded.addresses.database_url

    async def create_database(self, name: str) -> str:
        """Make an empty database and return its address, `postgresql://...`.

        Raises:
            asyncpg.DuplicateDatabaseError: the name, of which only letters and digits count, is taken.
        """
        database = re.sub(r"[^a-z0-9]+", "_", name.lower())
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute(f'create database "{database}"')
        finally:
            await connection.close()
        return urlsplit(self._url)._replace(path=f"/{database}").geturl()

    async def versions(self) -> dict[str, str]:
        """Of both servers, by name."""
        connection = await asyncpg.connect(self._url)
        try:
            postgres = cast(str, await connection.fetchval("show server_version"))
        finally:
            await connection.close()
        info = await (await Client.connect(self.temporal)).workflow_service.get_system_info(GetSystemInfoRequest())
        return {"postgresql": postgres, "temporal": info.server_version}


async def stored_bytes(url: str) -> int:
    """The size of all tables of a database with their indexes and what is stored outside of them, vacuumed first."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum")
        await connection.execute("checkpoint")
        return cast(int, await connection.fetchval(_SIZE))
    finally:
        await connection.close()


async def analyze(url: str) -> None:
    """Have the server learn what is in a database, so that its plans are those of one that is in use."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("analyze")
    finally:
        await connection.close()


@asynccontextmanager
async def running_servers(folder: Path) -> AsyncGenerator[BenchServers, None]:
    """Both servers, with their data in `folder`; one that dies is not started again, so that it is noticed."""
    async with EmbeddedServers(folder) as embedded:
        yield BenchServers(embedded)
