"""What of a stream must be the same whichever host it comes from, and how its events may follow each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult
from perdure.upp.json_value import JSONObject
from perdure.upp.turn import Turn

LETTERS = {
    "step_start": "S",
    "reasoning": "R",
    "action": "A",
    "tool_execution_start": "t",
    "tool_execution_end": "e",
    "observation": "O",
    "step_end": "E",
    "checkpoint": "",
    "reset": "X",
}
"""One letter per event; `m` for a model's."""

TOOLS = "At+e+O"
ORDERS = {
    "loop": f"(Sm+({TOOLS})?E)*(Sm+At+E)?",  # at its limit calls are announced that are not run
    "react": f"(Sm+Rm+({TOOLS})?E)*",
    "plan": f"(Sm+({TOOLS}m+)*E)*",
}
"""The orders of a run that did not fail, by strategy."""

_LEFT_OUT = {"id", "timestamp", "duration", "stepId", "turnId", "parentTurnId", "agentId"}


async def read(stream: AgentStreamResult) -> list[AgentStreamEvent]:
    return [event async for event in stream]


def kind(event: AgentStreamEvent) -> str:
    return str(event.uap.type if event.uap is not None else event.upp and event.upp.type)


def letters(events: Sequence[AgentStreamEvent]) -> str:
    return "".join(LETTERS.get(kind(event), "m") for event in events)


def check_order(strategy: str, events: Sequence[AgentStreamEvent]) -> None:
    told = letters(events)
    assert re.fullmatch(ORDERS[strategy], told), told


def comparable(value: Any) -> Any:
    """JSON without ids that are drawn and without times."""
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in cast("dict[str, Any]", value).items() if name not in _LEFT_OUT}
    return [comparable(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def turn_json(turn: Turn) -> JSONObject:
    return comparable(turn.to_json())


def events_json(events: Sequence[AgentStreamEvent]) -> list[JSONObject]:
    """The events without checkpoints, which are durable runs', and with tools that end at the same time in call order.

    Text that goes on is one event, since a durable run holds back an end with which a secret may have begun.
    """
    told: list[JSONObject] = []
    ends: list[AgentStreamEvent] = []
    for event in events:
        if kind(event) == "tool_execution_end":
            ends.append(event)
            continue
        told += [comparable(end.to_json()) for end in sorted(ends, key=lambda end: end.upp.index if end.upp else 0)]
        ends = []
        if kind(event) != "checkpoint":
            _add(told, comparable(event.to_json()))
    return told


def _add(told: list[JSONObject], event: JSONObject) -> None:
    last, now = cast("Any", told[-1].get("upp") if told else None), cast("Any", event.get("upp"))
    if last and now and last["type"] == now["type"] == "text_delta" and last["index"] == now["index"]:
        last["delta"]["text"] += now["delta"]["text"]
        return
    told.append(event)


def shown(events: Sequence[AgentStreamEvent]) -> list[AgentStreamEvent]:
    """The model's events that a reader has before it, who takes away what a reset says is void."""
    left: list[AgentStreamEvent] = []
    for event in events:
        if event.upp is not None:
            left.append(event)
        elif event.uap is not None and event.uap.type == "reset":
            del left[len(left) - int(str(event.uap.data["events"])) :]
    return left


def text_of(events: Sequence[AgentStreamEvent]) -> str:
    return "".join(event.upp.delta.text or "" for event in events if event.upp and event.upp.type == "text_delta")
