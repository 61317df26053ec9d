"""DBOS with Pydantic AI (`DBOSDurability`, the tool a step): `python -m benchmarks.peers.dbos_pydantic_ai`.

The work is done in this process, as DBOS does it; {"best": true} shares it between two processes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage

from benchmarks.line import Done, Given, Ready, closed_loop, given, one_by_one, serve
from benchmarks.peers.pydantic_ai_script import UNLIMITED, look_up, scripted
from benchmarks.peers.shared_driver import SharedDriver
from benchmarks.work import check_answer, prompt

agent = Agent(scripted(), name="bench", tools=[DBOS.step()(look_up)], capabilities=[DBOSDurability()])


@DBOS.workflow()
async def run_agent(text: str) -> str:
    """A run: its answer."""
    return (await agent.run(text, usage_limits=UNLIMITED)).output


@DBOS.workflow()
async def take_turn(text: str, history: list[ModelMessage]) -> tuple[str, list[ModelMessage]]:
    """A turn of a session: its answer, and the messages that it adds."""
    result = await agent.run(text, message_history=history, usage_limits=UNLIMITED)
    return result.output, result.new_messages()


class DbosDriver:
    """See `line.Driver`."""

    def __init__(self, start: Given) -> None:
        """Nothing is started yet."""
        self._given = start

    async def start(self) -> Ready:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._given.database_url,
                "executor_id": str(uuid.uuid4()),  # two processes are two executors
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        versions = {package: version(package) for package in ("dbos", "pydantic-ai-slim", "pydantic")}
        return Ready({"worker": [os.getpid()]}, versions)

    async def runs(self, work: str, runs: int, at_once: int) -> Done:
        async def one(_number: int) -> str:
            with SetWorkflowID(workflow_id := str(uuid.uuid4())):
                check_answer(work, await run_agent(prompt(work)))
            return workflow_id

        return await closed_loop(one, runs, at_once)

    async def turns(self, work: str, turns: int) -> Done:
        history: list[ModelMessage] = []

        async def one(turn: int) -> str:
            with SetWorkflowID(workflow_id := str(uuid.uuid4())):
                answer, new = await take_turn(prompt(work, turn), history)
            check_answer(work, answer)
            history.extend(new)
            return workflow_id

        return await one_by_one(one, turns)

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        return {"history_bytes": 0, "events": 0}

    async def stop(self) -> None:
        DBOS.destroy()


if __name__ == "__main__":
    start = given()
    serve(SharedDriver("benchmarks.peers.dbos_pydantic_ai", start) if start.options.get("best") else DbosDriver(start))
