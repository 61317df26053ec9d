"""A session as one JSON document. Source: UAP-1.0 section 13.

Pure: whoever has a session's parts, from wherever, gets its document here. Messages come as UPP's MessageJSON and are
put in as they are, not copied: one message is in its thread and in every checkpoint of its run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.ids import derive_id
from perdure.uap.session_checkpoints import CURRENT, DONE
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.timestamp import format_timestamp
from perdure.upp.usage import TokenUsage

VERSION = "1.0.0"


@dataclass(frozen=True, slots=True)
class SessionNode:
    """One node of the thread tree.

    Attributes:
        id: the node's id.
        parent: id of the node that it branched from; None for the root.
        name: "main" for the root.
        thread: id of the node's thread.
        created_at: when the node was made; text that another system wrote stays as it is, here and below.
        messages: MessageJSON of the node's own thread, oldest first, without those of failed runs.
        fork_index: how many messages of the parent's thread it goes on from; None for the root.
        metadata: the node's own.
        updated_at: when the thread got its last message; None for that message's own time.
        children: ids of the first nodes that branched from it, in their order; the others follow in that of the nodes.
    """

    id: str
    parent: str | None
    name: str | None
    thread: str
    created_at: datetime | str
    messages: Sequence[JSONObject] = ()
    fork_index: int | None = None
    metadata: JSONObject = field(default_factory=dict[str, JSONValue])
    updated_at: str | None = None
    children: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SessionCheckpoint:
    """One checkpoint.

    Attributes:
        record: everything but the messages' bodies.
        messages: MessageJSON of the run up to the checkpoint, the input first, also if the run failed later.
        thread_length: messages that the node's thread held when the run began.
        reasoning: what react had reasoned in the run, oldest first.
        done: the run has ended here, or needs no further step.
        current: it is the one that the session stands at, and not the last.
        sub_agents: SessionJSON of the sub-agents that the run had finished, by tool call id.
    """

    record: CheckpointRecord
    messages: Sequence[JSONObject]
    thread_length: int
    reasoning: Sequence[str] = ()
    done: bool = False
    current: bool = False
    sub_agents: Mapping[str, JSONObject] = field(default_factory=dict[str, JSONObject])


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a document is made of.

    Attributes:
        id: the session's id.
        agent_id: its agent's id.
        created_at: when the session was opened.
        updated_at: when its last run ended.
        nodes: the thread tree, in order; the one without a parent is the root.
        current: id of the node that the next run works on.
        checkpoints: oldest first.
        metadata: the session's own.
    """

    id: str
    agent_id: str
    created_at: datetime | str
    updated_at: datetime | str
    nodes: Sequence[SessionNode]
    current: str
    checkpoints: Sequence[SessionCheckpoint] = ()
    metadata: JSONObject = field(default_factory=dict[str, JSONValue])


def session_json(parts: SessionParts) -> JSONObject:
    """The SessionJSON of a session; equal parts give equal documents, keys in the same order.

    Raises:
        ValueError: there is no root, or more than one.
    """
    (root,) = (node for node in parts.nodes if node.parent is None)
    nodes = [node_json(node, parts.nodes) for node in parts.nodes]
    return {
        **head_json(parts),
        "threadTree": {"rootId": root.id, "currentId": parts.current, "nodes": [*nodes]},
        "checkpoints": [checkpoint_json(parts.id, checkpoint) for checkpoint in parts.checkpoints],
        "metadata": parts.metadata,
    }


def head_json(parts: SessionParts) -> JSONObject:
    """What a document begins with."""
    return {
        "version": VERSION,
        "id": parts.id,
        "agentId": parts.agent_id,
        "createdAt": _moment(parts.created_at),
        "updatedAt": _moment(parts.updated_at),
    }


def node_json(node: SessionNode, nodes: Sequence[SessionNode]) -> JSONObject:
    """The ThreadNodeJSON of one of a session's nodes."""
    fork: JSONObject = {} if node.fork_index is None else {"forkIndex": node.fork_index}
    later = [other.id for other in nodes if other.parent == node.id and other.id not in node.children]
    return {
        "id": node.id,
        "parentId": node.parent,
        "name": node.name,
        "thread": _thread_json(node),
        "children": [*node.children, *later],
        "metadata": {**node.metadata, **fork},
    }


def _thread_json(node: SessionNode) -> JSONObject:
    created = _moment(node.created_at)
    last = str(node.messages[-1]["timestamp"]) if node.messages else created
    updated = max(created, last) if node.updated_at is None else node.updated_at  # texts of one form: the later time
    return {
        "id": node.thread,
        "messages": list(node.messages),
        "createdAt": created,
        "updatedAt": updated,
    }


def _moment(value: datetime | str) -> str:
    return value if isinstance(value, str) else format_timestamp(value)


def checkpoint_json(session: str, checkpoint: SessionCheckpoint) -> JSONObject:
    """The CheckpointJSON of one of a session's checkpoints."""
    record = checkpoint.record
    marks: JSONObject = {
        **({DONE: True} if checkpoint.done else {}),
        **({CURRENT: True} if checkpoint.current else {}),
    }
    more: JSONObject = {"reasoning": list(checkpoint.reasoning)} if checkpoint.reasoning else {}
    if record.plan is not None:
        more["plan"] = cast("list[JSONValue]", record.plan)
    return {
        "id": record.id,
        "sessionId": session,
        "timestamp": record.at,
        "step": record.step,
        "threadId": record.node,
        "state": {
            "step": record.step,
            "messages": list(checkpoint.messages),
            "metadata": cast(JSONObject, record.metadata),
            **more,
        },
        "subAgentStates": {**checkpoint.sub_agents},
        "metadata": {
            "stepId": derive_id(record.run, "step", record.step),
            "runId": record.run,
            "threadLength": checkpoint.thread_length,
            "usage": _usage_json(record.usage),
            "cycles": record.cycles,
            **marks,
        },
    }


def _usage_json(usage: JSONObject) -> JSONObject:
    """All counts of a TokenUsage; a record leaves zeros out."""
    return {name: count for name, count in TokenUsage.from_json(usage).to_json().items() if name != "cycles"}
