"""Checkpoints of a session that runs in process.

The durable host has a record of its own, `checkpoint`. Reading the JSON is `session_document`'s part.
Source: UAP-1.0 sections 6.4, 13.3 and 13.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from perdure.errors import InvalidInput
from perdure.uap.active_session import SessionRun
from perdure.uap.hooks import state_copy
from perdure.uap.ids import derive_id, new_id
from perdure.uap.run_turn import spoken
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, JSONValue, jsonable
from perdure.upp.messages import Message
from perdure.upp.timestamp import format_timestamp, now

RUN_ID = "runId"
THREAD_LENGTH = "threadLength"
TOOL_EXECUTIONS = "toolExecutions"
DONE = "done"
CURRENT = "current"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a run had come to after a step. Source: UAP-1.0 section 6.4, Checkpoint.

    Attributes:
        id: a UUIDv4, unless another system wrote it.
        session_id: its session's.
        timestamp: ISO 8601 with a time zone.
        step: the step that had ended.
        thread_id: the tree node that the run worked on.
        state: for reading; whoever goes on from it takes a copy.
        sub_agent_states: SessionJSON of the sub-agents that the run had finished, by tool call id.
        metadata: JSON. `stepId`, `runId`, `threadLength` (messages of the node's thread when the run began), `usage`,
            `cycles`, `toolExecutions` and `done` are of the session, the rest is the user's.
    """

    id: str
    session_id: str
    timestamp: str
    step: int
    thread_id: str
    state: ExecutionState
    sub_agent_states: dict[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    metadata: JSONObject = field(default_factory=dict[str, JSONValue])

    @property
    def spoken(self) -> list[Message]:
        """The state's messages that are part of the conversation, oldest first."""
        return spoken(self.state.messages)

    def finished(self) -> Checkpoint:
        """The same checkpoint, of a run that needs no further step."""
        state = state_copy(self.state)
        state.done = True
        return replace(self, state=state, metadata={**self.metadata, DONE: True})

    def to_json(self) -> JSONObject:
        """Returns UAP's CheckpointJSON, which shares nothing with the checkpoint.

        Raises:
            InvalidInput: the metadata holds something that is not JSON.
        """
        document: JSONObject = {
            "id": self.id,
            "sessionId": self.session_id,
            "timestamp": self.timestamp,
            "step": self.step,
            "threadId": self.thread_id,
            "state": _state_json(self.state),
            "subAgentStates": cast(JSONObject, self.sub_agent_states),
            "metadata": self.metadata,
        }
        try:
            return cast(JSONObject, jsonable(document))
        except TypeError as error:
            raise InvalidInput(f"checkpoint {self.id!r:.80}: {error}") from error


def _state_json(state: ExecutionState) -> JSONObject:
    more: JSONObject = {"reasoning": [*state.reasoning]} if state.reasoning else {}
    if state.plan is not None:
        more["plan"] = [step.to_json() for step in state.plan]
    messages = [message.to_json() for message in state.messages]
    return {"step": state.step, "messages": [*messages], "metadata": state.metadata, **more}


def take_checkpoint(run: SessionRun, state: ExecutionState) -> Checkpoint:
    """The checkpoint of a run.

    Args:
        run: in progress or just ended.
        state: a copy that nobody else changes.
    """
    metadata: JSONObject = {
        "stepId": derive_id(run.id, "step", state.step),
        RUN_ID: run.id,
        THREAD_LENGTH: run.thread_length,
        "usage": state.usage.to_json(),
        "cycles": state.cycles,
    }
    if state.tool_executions:
        metadata[TOOL_EXECUTIONS] = [execution.to_json() for execution in state.tool_executions]
    if state.done:
        metadata[DONE] = True
    return Checkpoint(
        id=new_id(),
        session_id=run.session.id,
        timestamp=format_timestamp(now()),
        step=state.step,
        thread_id=run.node.id,
        state=state,
        sub_agent_states=dict(run.sub_agent_states),
        metadata=metadata,
    )


def same_messages(some: Sequence[Message], others: Sequence[Message]) -> bool:
    """Whether both are the same messages, by id, in the same order."""
    return [message.id for message in some] == [message.id for message in others]


class CheckpointList:
    """A session's checkpoints, oldest first, and the one that it stands at.

    Attributes:
        items: those of failed runs and left branches too.
        current: None before the first.
    """

    def __init__(self, items: Sequence[Checkpoint] = (), current: Checkpoint | None = None) -> None:
        self.items = list(items)
        self.current = current

    def add(self, checkpoint: Checkpoint) -> None:
        """Adds one, that is then the current one."""
        self.items.append(checkpoint)
        self.current = checkpoint

    def find(self, checkpoint_id: str) -> Checkpoint:
        """The checkpoint of that id. Raises InvalidInput."""
        found = next((item for item in self.items if item.id == checkpoint_id), None)
        if found is None:
            raise InvalidInput(f"Checkpoint not found: {checkpoint_id}")
        return found

    def finish(self, run: SessionRun, messages: Sequence[Message]) -> None:
        """Notes that a run has ended with these messages: if it did so at its last checkpoint, no step is left there."""
        last = self.items[-1] if self.items else None
        if last is not None and last.metadata.get(RUN_ID) == run.id and same_messages(last.spoken, messages):
            self.items[-1] = self.current = last.finished()

    def to_json(self) -> list[JSONValue]:
        """Returns a list of CheckpointJSON. No field of a session says which is current, so a mark does if not the last.

        Raises:
            InvalidInput: metadata holds something that is not JSON.
        """
        documents = [item.to_json() for item in self.items]
        for item, document in zip(self.items[:-1], documents, strict=False):
            if item is self.current:
                document["metadata"] = {**cast(JSONObject, document["metadata"]), CURRENT: True}
        return [*documents]
