"""The worker process of the OpenAI Agents SDK on Temporal."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.client import Client
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin

from benchmarks.line import given
from benchmarks.peers.openai_agents_script import ScriptedModels, look_up
from benchmarks.peers.openai_agents_temporal_workflow import Run, Session
from benchmarks.temporal_worker import serve_worker


async def main() -> None:
    """Take work until the driver says otherwise."""
    start = given()
    plugin = OpenAIAgentsPlugin(
        model_params=ModelActivityParameters(start_to_close_timeout=timedelta(seconds=60)),
        model_provider=ScriptedModels(),
        add_temporal_spans=False,
    )
    client = await Client.connect(start.temporal, plugins=[plugin])
    await serve_worker(client, [Run, Session], [look_up], sandboxed=not start.options.get("best"))


if __name__ == "__main__":
    asyncio.run(main())
