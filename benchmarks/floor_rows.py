"""The floor's own rows: those that Perdure has after the same steps, inserted plainly.

Each model answer and each tool result is one transaction of single inserts, through the bare driver; a turn's beginning
and its end are one each. What Perdure does beside that (the session's lock, claims, what makes a repeated write
harmless) is not done: an activity that is tried again after it wrote would fail.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg

from benchmarks.floor_events import USAGE, answer_events, compact, result_event, run_event, step_event
from benchmarks.floor_workflow import Message, ModelInput, ToolInput
from benchmarks.floor_writer import Place, Writer, digest
from benchmarks.work import calls_per_step

_AGENT = "5b0d3c52-8a9e-5d0f-8c57-0f6a3b1d2e4c"
_SPEC = compact({"name": "floor", "id": _AGENT, "strategy": {"options": {}}, "tools": [{"name": "look_up"}]})


@asynccontextmanager
async def open_rows(url: str) -> AsyncGenerator[Rows, None]:
    """The writer of one worker process; it has as many connections as Perdure's worker."""
    async with asyncpg.create_pool(url, min_size=10, max_size=20) as pool:
        yield Rows(pool)


class Rows:
    """Writes the rows of the floor's sessions; see the module."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        """Write through `pool`."""
        self._pool = pool

    async def write_answer(self, workflow_id: str, asked: ModelInput, answer: Message) -> None:
        """Write a model's answer and what became of the step before it.

        Args:
            workflow_id: of the session's workflow.
            asked: what the model was asked.
            answer: what it said.
        """
        place = Place(workflow_id, asked.turn, asked.step)
        if asked.given == 0:
            await self._begin(place, asked.messages[-1])
        async with self._transaction(place) as write:
            if asked.given > 0:
                await _close_step(write, Place(workflow_id, asked.turn, asked.step - 1), asked)
            body = {
                "id": place.answer, "type": "assistant", "content": _content(answer),
                "toolCalls": [call.model_dump() for call in answer.calls], "timestamp": _now(),
            }  # fmt: skip
            await write.message(place.answer, place, place.position, "assistant", body)
            await write.events(answer_events(asked.step, place.answer, answer.text, answer.calls))
        if not answer.calls:
            async with self._transaction(place) as write:
                await write.checkpoint(place, [place.answer], done=True)
                await write.events([run_event("run.completed", usage=USAGE)])

    async def write_result(self, workflow_id: str, asked: ToolInput, text: str) -> None:
        """Write a tool's result."""
        call = asked.call
        place = Place(workflow_id, call.arguments["turn"], asked.step)
        body = compact(text).encode()
        async with self._transaction(place) as write:
            await write.row(
                "tool_calls", place.answer, asked.index, place.run, asked.step, compact(call.id), compact(call.name),
                digest(compact(call.arguments).encode()), "at_most_once", "done", 1, False, digest(body), len(body), 0,
                place.results,
            )  # fmt: skip
            await write.row("payloads", digest(body), body)
            await write.events([result_event(asked.step, place.answer, asked.index, call, text)])

    @asynccontextmanager
    async def _transaction(self, place: Place) -> AsyncGenerator[Writer, None]:
        async with self._pool.acquire() as connection, connection.transaction():
            yield Writer(connection, place)

    async def _begin(self, place: Place, prompt: Message) -> None:
        """Write what a turn stores when it is submitted and begins; of a first turn its session too."""
        now, message = datetime.now(UTC), place.derived(f"prompt {place.turn}")
        body = {"id": message, "type": "user", "content": _content(prompt), "timestamp": _now()}
        text, ordinal = compact(body).encode(), place.turn + 1
        async with self._transaction(place) as write:
            if place.turn == 0:
                await write.row("sessions", "floor", _AGENT, "idle", "{}", place.session, 1, "{}", now, now)
                await write.row("session_heads", place.run, now)
                await write.row("thread_nodes", place.session, '"main"', place.session, "{}", now)
            await write.row(
                "inputs", ordinal, place.run, place.turn == 0, digest(text), "message", message, text, digest(text),
                "enqueue", place.run, "taken", now,
            )  # fmt: skip
            await write.row(
                "runs", place.run, ordinal, "completed", _SPEC, place.session, place.position - 1, place.step,
                compact(USAGE), place.run, 0, now, now,
            )  # fmt: skip
            await write.message(message, place, place.position - 1, "user", body)
            told = {"input": ordinal, "message": message}
            await write.events([run_event("run.queued", **told), run_event("run.started", **told, execution=place.run)])


async def _close_step(write: Writer, place: Place, asked: ModelInput) -> None:
    """Write the message with a step's results and the step's checkpoint, of what the next model call was sent."""
    results = [
        {"isError": False, "ref": _reference(m.text), "toolCallId": m.call_id}
        for m in asked.messages[-calls_per_step(asked.work) :]
    ]
    body = {"content": [], "id": place.results, "results": results, "timestamp": _now(), "type": "tool_result"}
    await write.message(place.results, place, place.position + 1, "tool_result", body)
    await write.events([step_event(place.step, "observation", message=place.results, results=results)])
    await write.checkpoint(place, [place.answer, place.results], done=False)


def _content(message: Message) -> list[dict[str, str]]:
    return [{"type": "text", "text": message.text}]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _reference(text: str) -> dict[str, str | int]:
    body = compact(text).encode()
    return {"sha256": digest(body), "size": len(body)}
