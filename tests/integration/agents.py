"""Agents for tests. What they do is said by the input's JSON; what they did is in the ledger, written as it happens.

Input: {"name": the test's own, "steps": rounds of tools, "calls": calls a round, "tool": which, "latency": seconds of a
model call, "seconds": of a tool call, "size": bytes of arguments, text and results}. Seconds and latency may be `HELD`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, cast

from perdure import App, agent
from perdure.execution import loop
from perdure.upp import ErrorCode, LLMRequest, ToolCall, ToolContext, UPPError, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted

HELD = -1.0
"""As a call's seconds: it takes until the test says `Stack.release`, however busy the machine is."""

_POLL_S = 0.02


def release_mark(ledger: Path, name: str) -> Path:
    """The file whose being there lets held calls of one spec's name go on."""
    return ledger.with_name(f"released-{name}")


async def held_until_released(name: str) -> None:
    """Wait until the test lets the calls of a name go on."""
    mark = release_mark(Path(os.environ["PERDURE_TEST_LEDGER"]), name)
    while True:
        if mark.exists():
            return
        await asyncio.sleep(_POLL_S)


async def _take(seconds: float, name: str) -> None:
    if seconds == HELD:
        await held_until_released(name)
    else:
        await asyncio.sleep(seconds)


def write_ledger(kind: str, name: str, **data: Any) -> None:
    """Append one line; O_APPEND makes lines of several processes whole."""
    line = json.dumps({"kind": kind, "name": name, "pid": os.getpid(), "at": time.time(), **data}) + "\n"
    with Path(os.environ["PERDURE_TEST_LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(line)


def _spec(request: LLMRequest) -> tuple[dict[str, Any], int]:
    """The input's spec, and how many answers the model has given since."""
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    given = sum(1 for message in request.messages[last:] if message.type == "assistant")
    return json.loads(request.messages[last].text), given


async def answer_spec(request: LLMRequest) -> Answer:
    """What the input's spec has the model say next."""
    spec, given = _spec(request)
    write_ledger("model", spec["name"], number=given, history=len(request.messages))
    if spec.get("latency"):
        await _take(spec["latency"], spec["name"])
    filler = "x" * spec.get("size", 0)
    if given >= spec.get("steps", 1):
        return Answer(text=spec.get("text", "done ") + filler)
    calls = [
        ToolCall(
            f"call_{given}_{index}",
            spec.get("tool", "at_most_once"),
            {"name": spec["name"], "key": f"{given}.{index}", "seconds": spec.get("seconds", 0), "filler": filler},
        )
        for index in range(spec.get("calls", 1))
    ]
    return Answer(text=f"step {given} {filler}", tool_calls=calls)


async def _work(kind: str, name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    write_ledger("tool", name, key=key, effect=kind, attempt=context.attempt, idempotency=context.idempotency_key)
    await _take(seconds, name)
    write_ledger("tool_done", name, key=key)
    return f"{key} {filler}"


@tool(effect="none")
async def none(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """Has no effect."""
    return await _work("none", name, key, seconds, filler, context)


@tool(effect="idempotent")
async def idempotent(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """Honours its key."""
    return await _work("idempotent", name, key, seconds, filler, context)


@tool
async def at_most_once(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """The default."""
    return await _work("at_most_once", name, key, seconds, filler, context)


@tool(effect="once")
async def once(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """Parks after an unknown outcome."""
    return await _work("once", name, key, seconds, filler, context)


@tool(effect="none")
def blocking(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """A sync tool that heeds nothing."""
    write_ledger("tool", name, key=key, effect="blocking", attempt=context.attempt)
    time.sleep(seconds)
    write_ledger("tool_done", name, key=key)
    return f"{key} {filler}"


@tool(effect="none", sequential=True)
async def barrier(name: str, key: str, seconds: float, filler: str, context: ToolContext) -> str:
    """Runs alone."""
    return await _work("barrier", name, key, seconds, filler, context)


@tool(effect="none")
def open_file() -> object:
    """Returns what JSON cannot hold."""
    with Path(os.devnull).open() as file:
        return file


@tool(effect="none")
def huge(size: int) -> str:
    """Returns many bytes."""
    return "y" * size


@tool(effect="none")
def failing(text: str) -> str:
    """Raises."""
    raise RuntimeError(text)


@tool(effect="none", timeout=0.3)
async def slow() -> str:
    """Takes longer than it may."""
    await asyncio.sleep(30)
    return "never"


async def _script(request: LLMRequest) -> Answer:
    """Follows the input's "script": a text, a list of {"tool", "arguments"}, or {"error": a code}."""
    spec, given = _spec(request)
    write_ledger("model", spec["name"], number=given, history=len(request.messages), system=request.system)
    item = cast("str | dict[str, str] | list[dict[str, Any]]", spec["script"][given])
    if isinstance(item, str):
        return Answer(text=item)
    if isinstance(item, dict):
        raise UPPError(item["error"], ErrorCode(item["error"]), "scripted")
    calls = [ToolCall(f"call_{given}_{index}", one["tool"], one.get("arguments", {})) for index, one in enumerate(item)]
    return Answer(tool_calls=calls)


TOOLS = [none, idempotent, at_most_once, once, blocking, barrier]

worker = agent(name="worker", model=scripted(answer_spec), tools=TOOLS, execution=loop(max_iterations=5000))


def _talk(request: LLMRequest) -> str:
    words = (request.params or {}).get("words", 400)
    return "word " * int(str(words))


talker = agent(
    name="talker",
    model=scripted(_talk, chunk_size=5, chunk_delay=0.05),
    system="Talk slowly.",
)
actor = agent(
    name="actor",
    model=scripted(_script),
    tools=[*TOOLS, open_file, huge, failing, slow],
    execution=loop(max_iterations=3),
    system="Follow the script.",
)
app = App(agents=[worker, talker, actor])
