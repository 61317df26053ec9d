"""Pydantic AI on Temporal (`TemporalDurability`): `python -m benchmarks.peers.pydantic_ai_temporal`.

By default with Temporal's sandbox and one worker process; {"best": true} is without the sandbox and with two.
"""

from __future__ import annotations

from benchmarks.line import given, serve
from benchmarks.temporal_driver import Contestant, TemporalDriver

if __name__ == "__main__":
    start = given()
    peer = Contestant(
        name="pydantic-ai",
        worker="benchmarks.peers.pydantic_ai_temporal_worker",
        workers=2 if start.options.get("best") else 1,
        packages=["pydantic-ai-slim", "temporalio", "pydantic"],
    )
    serve(TemporalDriver(peer, start))
