"""Agents for the chat door. What they say is said by the input's JSON; what they were asked is in the ledger.

Input: {"name": the test's own, "script": what the model answers, in order: a text, or {"text", "reasoning", "calls": a list of
{"tool", "arguments"}, "stop"}}. An input that is no such JSON is answered with "You said" and the input.
"""

from __future__ import annotations

import json
from typing import Any, cast

from perdure import App, agent
from perdure.execution import loop, react
from perdure.upp import LLMRequest, ToolCall, client_tool, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger

STEPS = loop(max_iterations=20)


def _spec(request: LLMRequest) -> tuple[dict[str, Any], int]:
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    given = sum(message.type == "assistant" for message in request.messages[last:])
    said = request.messages[last].text
    if not said.startswith("{"):
        write_ledger("asked", said, history=[message.text for message in request.messages])
        return {"name": said, "script": [f"You said: {said}"]}, given
    return json.loads(said), given


def _answer(request: LLMRequest) -> Answer:
    spec, given = _spec(request)
    write_ledger("model", spec["name"], number=given)
    item = cast("str | dict[str, Any]", spec["script"][min(given, len(spec["script"]) - 1)])
    if isinstance(item, str):
        return Answer(item)
    calls = [
        ToolCall(one.get("id", f"call_{given}_{place}"), one["tool"], one.get("arguments", {}))
        for place, one in enumerate(item.get("calls", []))
    ]
    return Answer(item.get("text", ""), calls, item.get("reasoning"), stop_reason=item.get("stop"))


def _words(request: LLMRequest) -> Answer:
    spec, given = _spec(request)
    write_ledger("model", spec["name"], number=given)
    return Answer("".join(f"word{number} " for number in range(int(spec.get("words", 40)))))


@tool(effect="none")
async def look(at: str) -> dict[str, Any]:
    """Look at something."""
    return {"at": at, "seen": [1.0, None, "😀"], "large": 12345678901234567890}


@tool(effect="none")
async def fail(why: str) -> str:
    """Raises."""
    raise RuntimeError(why)


@tool(approval="human")
async def pay(name: str, amount: int) -> str:
    """Pay."""
    write_ledger("tool", name, amount=amount)
    return f"paid {amount}"


@tool(approval="human", sequential=True)
async def pay_alone(name: str, amount: int) -> str:
    """Pay, one after the other."""
    write_ledger("tool", name, amount=amount)
    return f"paid {amount}"


pick = client_tool("pick", "Have the user pick one.", {"type": "object", "properties": {"of": {"type": "string"}}})
TOOLS = [look, fail, pay, pay_alone, pick]

teller = agent(name="teller", model=scripted(_answer, chunk_size=3), tools=TOOLS, execution=STEPS)
slow = agent(name="slow", model=scripted(_words, chunk_size=6, chunk_delay=0.05), tools=TOOLS, execution=STEPS)
thinker = agent(name="thinker", model=scripted(_answer, chunk_size=3), tools=TOOLS, execution=react(max_steps=4))
app = App(agents=[teller, slow, thinker])
