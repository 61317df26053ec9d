"""`AgentStreamResult`: what happens in a run as it happens, and the turn at its end. Source: UAP-1.0 section 12.

Which events a run has, and when, is the hosts' part: `viewer` in process, the event log in a durable run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from perdure.errors import InvalidInput
from perdure.uap.ids import derive_id
from perdure.uap.partial_turn import partial_turn
from perdure.upp.json_field import invalid, read_int, read_list, read_object, read_optional_object, read_str
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message
from perdure.upp.stream import StreamEvent
from perdure.upp.turn import Turn
from perdure.upp.turn_stream import TurnStream, Work
from perdure.upp.usage import empty_usage


class UAPEventType(StrEnum):
    """The `type` of a UAP event, with the keys of its data. All but `reset` are the specification's.

    Data besides has `stepId` and `turnId`, the ids of step and run, and of a sub-agent in process `parentAgentId` and
    `parentTurnId`. `reset` is Perdure's own: a model call failed while its answer came, and begins anew. Its `events` says how many events of source "upp", the last that were given, count no more; they
    are the failed call's, so none is taken back that belongs to another. Who shows text as it comes takes theirs away.
    """

    STEP_START = "step_start"
    """`stepNumber`."""
    STEP_END = "step_end"
    """`stepNumber`, `usage`: of all model calls of the step."""
    REASONING = "reasoning"
    """`text`."""
    ACTION = "action"
    """`toolCalls`."""
    OBSERVATION = "observation"
    """`results`: in call order."""
    CHECKPOINT = "checkpoint"
    """`checkpointId`."""
    RESET = "reset"
    """`events`."""


@dataclass(frozen=True, slots=True)
class UAPEvent:
    """What an agent does. Source: UAP-1.0 section 12.2.

    Attributes:
        step: the number of the step, from 1.
        agent_id: the agent that does it.
        data: JSON; values that UPP has a type for are in its JSON form.
    """

    type: UAPEventType
    step: int
    agent_id: str
    data: JSONObject = field(default_factory=dict[str, JSONValue])

    def to_json(self) -> JSONObject:
        """The specification's JSON form."""
        return {"type": str(self.type), "step": self.step, "agentId": self.agent_id, "data": self.data}

    @classmethod
    def from_json(cls, value: JSONValue) -> UAPEvent:
        """Read what `to_json` wrote; absent data is empty.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object or the type is unknown.
        """
        source, what = read_object(value, "UAP event"), "UAP event"
        kind = read_str(source, "type", what)
        if kind not in set(UAPEventType):
            raise invalid(what, f"unknown type {kind!r:.80}; known are {', '.join(UAPEventType)}")
        return cls(
            UAPEventType(kind),
            read_int(source, "step", what, 0),
            read_str(source, "agentId", what),
            read_optional_object(source, "data", what) or {},
        )


@dataclass(frozen=True, slots=True)
class AgentStreamEvent:
    """One event of a run: the agent's own, or one of its model's and tools', unchanged. Source: UAP-1.0 section 12.2.

    Attributes:
        uap: there if the source is "uap".
        upp: there if the source is "upp".
        path: of a sub-agent's event: the names of the tools that lead to it from the agent whose stream this is.
        call: of a sub-agent's event: the id of the tool call that it is the run of; two calls of one sub-agent differ
            in it.

    Raises:
        InvalidInput: both are there, or neither.
    """

    uap: UAPEvent | None = None
    upp: StreamEvent | None = None
    path: tuple[str, ...] = ()
    call: str = ""

    def __post_init__(self) -> None:
        if (self.uap is None) == (self.upp is None):
            raise InvalidInput("an agent's stream event is either a UAP event or a UPP event: give one of uap and upp")

    @property
    def source(self) -> Literal["uap", "upp"]:
        """Tells the two apart."""
        return "upp" if self.uap is None else "uap"

    def to_json(self) -> JSONObject:
        """The specification's JSON form; the key of the other source is absent, and so are an empty path and call."""
        place: JSONObject = {"path": [*self.path]} if self.path else {}
        if self.call:
            place["call"] = self.call
        if self.uap is not None:
            return {"source": "uap", "uap": self.uap.to_json(), **place}
        assert self.upp is not None, "looked at when the event was made"
        return {"source": "upp", "upp": self.upp.to_json(), **place}

    @classmethod
    def from_json(cls, value: JSONValue) -> AgentStreamEvent:
        """Read what `to_json` wrote.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object, or the source is unknown.
        """
        source, what = read_object(value, "agent stream event"), "agent stream event"
        match read_str(source, "source", what):
            case "uap":
                event = cls(uap=UAPEvent.from_json(source.get("uap")))
            case "upp":
                event = cls(upp=StreamEvent.from_json(source.get("upp")))
            case other:
                raise invalid(what, f"unknown source {other!r:.80}; known are uap, upp")
        path = read_list(source, "path", what)
        if not all(isinstance(name, str) for name in path):
            raise invalid(what, "field 'path' must be a list of names")
        call = read_str(source, "call", what) if source.get("call") is not None else ""
        return replace(event, path=tuple(str(name) for name in path), call=call)


def of_step(kind: UAPEventType, run: str, step: int, agent_id: str, data: JSONObject) -> AgentStreamEvent:
    """An event of source "uap" that says in which step of which run it came."""
    ids: JSONObject = {"stepId": derive_id(run, "step", step), "turnId": run}
    return AgentStreamEvent(UAPEvent(kind, step, agent_id, {**data, **ids}))


def is_aborted() -> bool:
    """Whether the work of a stream, cancelled where this is called, was ended by its reader, not from within."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class AgentStreamResult(TurnStream[AgentStreamEvent]):
    """A run that starts when it is first read: iterated, awaited, or both at once; see `TurnStream`.

    Its turn is the one that `run` gives. `abort` cancels the run, and so does leaving the iteration early: iterating
    ends quietly, and the turn is what was made until then, its answer marked with metadata {"uap": {"aborted": true}}.
    What fails the run is raised to who iterates and to who awaits. Source: UAP-1.0 section 12.1.
    """

    def __init__(self, work: Work[AgentStreamEvent], inputs: Sequence[Message] = ()) -> None:
        """Takes what sends the events and returns the turn; a strategy of one's own may give its `stream` so.

        Args:
            work: called once with the flow to send events to. To end it early it is cancelled; the turn that it then
                still returns is the partial one.
            inputs: the messages of the partial turn of work that never began, or returned none.
        """

        def left(made: Turn | BaseException | None) -> Turn | BaseException:
            return partial_turn(inputs, [], empty_usage(), 0) if made is None else made

        super().__init__(work, left)
