"""The worker process of Pydantic AI on Temporal."""

from __future__ import annotations

import asyncio

from pydantic_ai.durable_exec.temporal import PydanticAIPlugin
from temporalio.client import Client

from benchmarks.line import given
from benchmarks.peers.pydantic_ai_temporal_workflow import Run, Session
from benchmarks.temporal_worker import serve_worker


async def main() -> None:
    """Take work until the driver says otherwise."""
    start = given()
    client = await Client.connect(start.temporal, plugins=[PydanticAIPlugin()])
    await serve_worker(client, [Run, Session], [], sandboxed=not start.options.get("best"))


if __name__ == "__main__":
    asyncio.run(main())
