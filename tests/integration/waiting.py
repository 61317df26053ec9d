"""What tests of waits share: workers, scripts for the clerk, and waiting until somebody is asked."""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.waits import WaitRow
from perdure.upp.messages import ToolResultMessage
from perdure.upp.turn import Turn
from tests.integration.facts import read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually

APP = "tests.integration.approval_agents:app"


@contextmanager
def worker(stack: Stack, **environment: str) -> Generator[WorkerProcess]:
    """A worker of its own, dead at the end: all serve one task queue."""
    process = WorkerProcess(stack, APP, **environment).wait_ready()
    try:
        yield process
    finally:
        process.kill()


async def until_ended(sessions: Sessions, handle: RunHandle, count: int) -> None:
    """Return once so many calls of the session have their results."""

    async def enough() -> bool:
        events = (await read_facts(sessions, handle.session)).events
        return sum(event.type == "tool_execution_end" for event in events) >= count

    await eventually(enough, what=f"{count} results")


def new_name() -> str:
    """A name of its own in the ledger."""
    return uuid.uuid4().hex


def call(tool: str, name: str, amount: int = 1, to: str = "x") -> dict[str, Any]:
    """A payment."""
    return {"tool": tool, "arguments": {"name": name, "to": to, "amount": amount}}


async def submit(sessions: Sessions, name: str, *script: Any, agent: str = "clerk", **more: Any) -> RunHandle:
    """Hand a script in."""
    return await sessions.submit(agent, json.dumps({"name": name, "script": list(script)}), **more)


async def asked(sessions: Sessions, handle: RunHandle, count: int = 1) -> list[WaitRow]:
    """The open waits, once there are so many, in the order of their arguments' amounts."""

    async def enough() -> list[WaitRow] | None:
        rows = await sessions.waits(handle.session)
        return rows if len(rows) >= count else None

    rows = await eventually(enough, what=f"{count} waits")
    return sorted(rows, key=lambda row: json.dumps(row.asked.get("arguments")))


def paid(stack: Stack, name: str) -> list[int]:
    """The amounts that were paid, in order."""
    return [entry["amount"] for entry in stack.entries(name, "tool")]


def results(turn: Turn) -> list[tuple[Any, bool]]:
    """What the model was told of its calls: results, and whether they are errors."""
    batches = [message for message in turn.messages if isinstance(message, ToolResultMessage)]
    return [(result.result, result.is_error) for batch in batches for result in batch.results]
