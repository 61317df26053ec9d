"""Where an inside agent's stage session is. The thread says it: each result of a stage's tool names what came of it.

So a session goes on where its thread stands: a run where the last one on this thread left it, a branch or a restored
checkpoint where it was there. The model is told the words of such a result alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolResult

CONTENT = "content"
STAGE = "stage"
STATE = "state"


@dataclass(frozen=True, slots=True)
class StagePlace:
    """A stage session after an action.

    Attributes:
        stage: where it is; "" once it has ended.
        state: sha256 of its snapshot, which has all of it; see `perdure.uap.stage_snapshot`.
    """

    stage: str
    state: str


def qualified(stage: str, name: str) -> str:
    """How specs and paths name a task of a stage. No tool can be called so: two stages may have tasks of one name."""
    return f"{stage}.{name}"


def is_own(name: str) -> bool:
    """Whether it is a tool of the agent's own that a spec names so."""
    return "." not in name


def stage_result(content: str, place: StagePlace) -> JSONObject:
    """The result of a stage's tool as it stands in the thread.

    Args:
        content: the words for the model.
        place: where the session is after it.
    """
    return {CONTENT: content, STAGE: place.stage, STATE: place.state}


def place_of(result: JSONValue) -> StagePlace | None:
    """What a tool's result says of the session; None if it is no result of a stage's tool that was carried out."""
    if not isinstance(result, dict) or result.keys() != {CONTENT, STAGE, STATE}:
        return None
    stage, state = result[STAGE], result[STATE]
    return StagePlace(stage, state) if isinstance(stage, str) and isinstance(state, str) else None


def last_place(messages: Sequence[Message], others: Container[str]) -> StagePlace | None:
    """Where the session is after these messages; None if they say nothing of one.

    Args:
        messages: oldest first.
        others: names of the agent's own tools, whose results say nothing of it whatever they hold.
    """
    waiting: list[ToolResultMessage] = []  # for the answer whose calls they belong to
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            waiting.append(message)
        elif isinstance(message, AssistantMessage):
            found = next((place for item in waiting for place in _places(item, message, others)), None)
            if found is not None:
                return found
            waiting.clear()
    return None


def as_told(messages: Sequence[Message], others: Container[str]) -> list[Message]:
    """The messages as the model is sent them: of a stage's tool its words.

    Args:
        messages: oldest first; they are not changed.
        others: as for `last_place`.
    """
    told: list[Message] = []
    answer: AssistantMessage | None = None
    for message in messages:
        if isinstance(message, AssistantMessage):
            answer = message
        elif isinstance(message, ToolResultMessage) and answer is not None:
            message = _told(message, answer, others)
        told.append(message)
    return told


def _told(message: ToolResultMessage, answer: AssistantMessage, others: Container[str]) -> ToolResultMessage:
    own = _own_results(message, answer, others)
    results = [result if mine else _words(result) for result, mine in zip(message.results, own, strict=True)]
    return ToolResultMessage(results, id=message.id, timestamp=message.timestamp, metadata=message.metadata)


def _words(result: ToolResult) -> ToolResult:
    given = result.result
    return replace(result, result=given[CONTENT]) if isinstance(given, dict) and place_of(given) else result


def _places(message: ToolResultMessage, answer: AssistantMessage, others: Container[str]) -> Iterator[StagePlace]:
    """What the results say, the last first."""
    own = _own_results(message, answer, others)
    for result, mine in reversed(list(zip(message.results, own, strict=True))):
        found = None if mine else place_of(result.result)
        if found is not None:
            yield found


def _own_results(message: ToolResultMessage, answer: AssistantMessage, others: Container[str]) -> list[bool]:
    """Of each result whether a tool of the agent's own gave it. Calls of one answer may have one id: their order counts."""
    calls = answer.tool_calls or []
    mine: list[bool] = []
    for place, result in enumerate(message.results):
        same = [call for call in calls if call.tool_call_id == result.tool_call_id]
        there = calls[place] if place < len(calls) and calls[place] in same else next(iter(same), None)
        mine.append(there is not None and there.tool_name in others)
    return mine
