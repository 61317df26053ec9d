"""The floor's worker process. Plain: each activity answers and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from benchmarks.floor_rows import Rows, open_rows
from benchmarks.floor_workflow import Call, Message, ModelInput, Run, Session, ToolInput
from benchmarks.line import given
from benchmarks.temporal_worker import failing_at_once, serve_worker
from benchmarks.work import model_answer, tool_result


class Activities:
    """The floor's two activities.

    Args:
        rows: where they write what Perdure would; None writes nothing.
    """

    def __init__(self, rows: Rows | None) -> None:
        self._rows = rows

    @activity.defn(name="generate")
    async def generate(self, asked: ModelInput) -> Message:
        results = [message.text for message in _last_results(asked.messages)]
        with failing_at_once():
            said = model_answer(asked.work, asked.given, asked.turn, results)
        calls = [Call(id=call.id, name=call.name, arguments=call.arguments) for call in said.calls]
        answer = Message(role="assistant", text=said.text, calls=calls)
        if self._rows is not None:
            await self._rows.write_answer(activity.info().workflow_id or "", asked, answer)
        return answer

    @activity.defn(name="call_tool")
    async def call_tool(self, asked: ToolInput) -> Message:
        text = await look_up(**asked.call.arguments)
        if self._rows is not None:
            await self._rows.write_result(activity.info().workflow_id or "", asked, text)
        return Message(role="tool", text=text, call_id=asked.call.id)


async def look_up(work: str, turn: int, step: int, index: int) -> str:
    """The tool of all works."""
    return tool_result(work, step, index)


def _last_results(messages: list[Message]) -> list[Message]:
    """The results at the end of what a model was sent."""
    last = next((n for n, message in enumerate(reversed(messages)) if message.role != "tool"), len(messages))
    return messages[len(messages) - last :]


async def main() -> None:
    """Take the floor's work until the driver says so."""
    start = given()
    client = await Client.connect(start.temporal, data_converter=pydantic_data_converter)
    async with AsyncExitStack() as stack:
        rows = await stack.enter_async_context(open_rows(start.database_url)) if start.options.get("rows") else None
        does = Activities(rows)
        sandboxed = bool(start.options.get("sandbox"))
        await serve_worker(client, [Run, Session], [does.generate, does.call_tool], sandboxed=sandboxed)


if __name__ == "__main__":
    asyncio.run(main())
