"""The OpenAI Agents SDK on Temporal (its plugin): `python -m benchmarks.peers.openai_agents_temporal`.

By default with Temporal's sandbox and one worker process; {"best": true} is without the sandbox and with two.
"""

from __future__ import annotations

from benchmarks.line import given, serve
from benchmarks.temporal_driver import Contestant, TemporalDriver

if __name__ == "__main__":
    start = given()
    peer = Contestant(
        name="openai-agents",
        worker="benchmarks.peers.openai_agents_temporal_worker",
        workers=2 if start.options.get("best") else 1,
        packages=["openai-agents", "temporalio-openai-agents", "temporalio", "pydantic"],
    )
    serve(TemporalDriver(peer, start))
