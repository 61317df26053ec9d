"""An agent whose tools wait until the test says `Stack.release`, from a given round on; one of them where nothing reaches it.

Input: {"name": the test's own, "steps": rounds of one call, "tool": which, "held_from": the first round that waits, from 0}.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure import App, agent
from perdure.execution import loop
from perdure.upp import LLMRequest, ToolCall, ToolContext, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import HELD, none, release_mark, write_ledger
from tests.integration.stack import Stack, WorkerProcess

NAME = "holder"
QUEUE = "held"
_POLL_S = 0.02


@contextmanager
def holder_worker(stack: Stack) -> Generator[WorkerProcess]:
    """A worker of the agent, beside those of other agents."""
    process = WorkerProcess(stack, "tests.integration.held_agents:app", PERDURE_TASK_QUEUE=QUEUE).wait_ready()
    try:
        yield process
    finally:
        process.kill()


@tool(effect="none")
def blocking(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """A sync tool that heeds nothing but the test."""
    write_ledger("tool", name, key=key, effect="blocking", attempt=context.attempt)
    mark = release_mark(Path(os.environ["PERDURE_TEST_LEDGER"]), name)
    while seconds == HELD and not mark.exists():
        time.sleep(_POLL_S)
    write_ledger("tool_done", name, key=key)
    return key + filler


def _model(request: LLMRequest) -> Answer:
    spec: dict[str, Any] = json.loads(request.messages[0].text)
    given = sum(message.type == "assistant" for message in request.messages)
    write_ledger("model", spec["name"], number=given, history=len(request.messages))
    if given >= spec["steps"]:
        return Answer("done")
    seconds = HELD if given >= spec["held_from"] else 0.0
    arguments = {"name": spec["name"], "key": f"{given}.0", "seconds": seconds, "filler": ""}
    return Answer(f"step {given}", tool_calls=[ToolCall(f"call_{given}", spec["tool"], arguments)])


holder = agent(name=NAME, model=scripted(_model), tools=[none, blocking], execution=loop(max_iterations=50))
app = App(agents=[holder])
