"""Structured answers: what the agent asks for, and what came of it; one meaning in both hosts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from perdure.uap.options import RunOptions
from perdure.upp.content import TextBlock
from perdure.upp.json_value import JSONObject, JSONValue, loads
from perdure.upp.messages import AssistantMessage
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.agent import Agent


def structure_of(agent: Agent, options: RunOptions) -> JSONObject | None:
    """The schema that a run's answer must fit: the agent's, unless the run asks for a form of its own."""
    return agent.structure if options.response_format is None else None


def with_data(turn: Turn, structure: JSONObject | None) -> Turn:
    """The turn with what its response holds, if a structure was asked for and the turn has no data yet."""
    if structure is None or turn.data is not None:
        return turn
    data = _data(turn.response)
    return turn if data is None else dataclasses.replace(turn, data=data)


def _data(answer: AssistantMessage) -> JSONValue:
    """The answer's text as JSON, else that of its last text block, before which a model may have said something."""
    if answer.has_tool_calls:
        return None
    texts = [answer.text, *(block.text for block in answer.content[::-1] if isinstance(block, TextBlock))][:2]
    for text in texts:
        try:
            return loads(text.encode("utf-8", "surrogatepass"))
        except ValueError:
            continue
    return None
