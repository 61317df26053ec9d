"""A stored session as threads of ThreadProtocol: one for each node of its tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from perdure.errors import UnknownSession
from perdure.protocols.threadprotocol.from_tree import Noted, Said, Telling, thread_id_of, threads_from_tree
from perdure.protocols.threadprotocol.models import AgentConfig, Thread
from perdure.runtime.session_outline import Outline, read_outline
from perdure.runtime.threads.spec_changes import spec_changes
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.sessions import SessionRow
from perdure.store.thread_facts import FrozenRun, Grant, read_calling_node, read_frozen, read_grants
from perdure.uap.session_json import node_json
from perdure.uap.session_key import SessionKey
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.timestamp import format_timestamp
from perdure.upp.usage import TokenUsage

FinishReason = Literal["stop", "tool_call", "length", "content_filter"]

_FINISHES: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


async def session_threads(database: Database, key: SessionKey) -> list[Thread]:
    """The threads of a session, parents before their branches; a sub-agent's names the thread that it was called from.

    System actions stand where they happened: `system.agent_join` at the agent's first action, `system.config_update` before
    a run whose agent was another than that of the run before, `system.tool_grant` before the result of a call that a person
    approved.

    Raises:
        UnknownSession: there is none.
        DamagedSession: a body is missing or does not have its hash.
        InvalidThread: something in it cannot be said in a thread.
    """
    outline = await read_outline(database, key)
    async with database.transaction(key) as connection:
        grants, frozen = await read_grants(connection, key), await read_frozen(connection, key)
        caller = await read_calling_node(connection, key)
    read = await _read(database, outline)
    row = outline.row
    noted = [*_updates(frozen, read, row.agent_id), *_grants(grants, read, row.agent_id)]
    telling = Telling([agent_of(row)], read.said, noted)
    parent = None if caller is None else thread_id_of(caller)
    return threads_from_tree(read.tree, title=row.title or row.agent, telling=telling, parent=parent, keys=read.keys)


def thread_of_node(threads: Sequence[Thread], node: str) -> Thread | None:
    """The thread of a node, or None."""
    return next((thread for thread in threads if thread.thread_id == thread_id_of(node)), None)


@dataclass(slots=True)
class _Read:
    """A session's messages, by the ids of their rows: those of vendors may come again.

    Attributes:
        said: what is known of each.
        keys: ids by node, in order.
        first: id of each run's first message.
    """

    tree: ThreadTree
    said: dict[str, Said] = field(default_factory=dict[str, Said])
    keys: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    first: dict[str, str] = field(default_factory=dict[str, str])

    def note(self, node: str, stored: StoredMessage) -> None:
        self.keys.setdefault(node, []).append(stored.id)
        if stored.run is not None:
            self.first.setdefault(stored.run, stored.id)
        said = said_of(stored)
        if said is not None:
            self.said[stored.id] = said


@dataclass(frozen=True, slots=True)
class Update:
    """A run whose agent was another than that of the run before, and what changed."""

    run: FrozenRun
    changes: JSONObject


def updates_in(frozen: Sequence[FrozenRun]) -> list[Update]:
    """Which of a session's runs began with another agent than the run before.

    Args:
        frozen: all runs, first begun first.
    """
    pairs = ((run, spec_changes(before.spec, run.spec)) for before, run in pairwise(frozen))
    return [Update(run, changes) for run, changes in pairs if changes]


def update_of(update: Update, before: str, agent_id: str) -> Noted:
    """The `system.config_update` that stands before the run's first message."""
    data: JSONObject = {"agent_id": agent_id, "changes": update.changes}
    return Noted(before, "system.config_update", data, format_timestamp(update.run.at))


def grant_of(grant: Grant, agent_id: str) -> Noted:
    """The `system.tool_grant` that stands before the message with the call's result."""
    data: JSONObject = {"agent_id": agent_id, "tool_name": grant.tool, "tool_call_id": grant.call}
    data |= {"granted_by": grant.by, "granted_at": format_timestamp(grant.at)}
    if grant.edited:
        data["edited"] = True
    return Noted(grant.results, "system.tool_grant", data)


def said_of(stored: StoredMessage) -> Said | None:
    """What a stored message's row says of it; None if it says nothing."""
    if stored.usage is None and stored.stop is None:
        return None
    usage = None if stored.usage is None else TokenUsage.from_json(stored.usage)
    return Said(None, _FINISHES.get(stored.stop or ""), usage)


def agent_of(row: SessionRow) -> AgentConfig:
    """A session's own agent."""
    return AgentConfig(
        agent_id=row.agent_id,
        agent_identifier=row.agent,
        agent_name=row.agent,
        created_at=format_timestamp(row.created_at),
    )


async def session_history(database: Database, key: SessionKey) -> list[Message]:
    """The messages from the root to the current node of a session, oldest first; none if there is no such session."""
    try:
        outline = await read_outline(database, key)
    except UnknownSession:
        return []
    return (await _read(database, outline)).tree.history()


async def _read(database: Database, outline: Outline) -> _Read:
    parts, nodes, kept = outline.parts(), list[ThreadNode](), list[tuple[str, StoredMessage]]()
    for node in parts.nodes:
        shown = {slot.id for slot in outline.thread(node.id).kept}
        every = await read_messages(database, outline.row.key, node.id, discarded=True)
        stored = [item for item in every if item.id in shown]
        bodies = [item.message.to_json() for item in stored]
        nodes.append(ThreadNode.from_json(node_json(replace(node, messages=bodies), parts.nodes)))
        kept += [(node.id, item) for item in stored]
    read = _Read(ThreadTree.of(nodes, parts.current))
    for node, item in kept:
        read.note(node, item)
    return read


def _updates(frozen: Sequence[FrozenRun], read: _Read, agent_id: str) -> list[Noted]:
    return [
        update_of(update, read.first[update.run.id], agent_id)
        for update in updates_in(frozen)
        if update.run.id in read.first
    ]


def _grants(grants: Sequence[Grant], read: _Read, agent_id: str) -> list[Noted]:
    there = {key for keys in read.keys.values() for key in keys}
    return [grant_of(grant, agent_id) for grant in grants if grant.results in there]
