"""A session's thread tree as threads: one per node, a branch naming its parent.

A branch begins at 1 and holds its own messages only; what it goes on from is its parent's thread up to `fork_index`, which
stands in its metadata under `perdure`. Extension members `message_id` keep UPP's messages apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perdure.protocols.threadprotocol.models import VERSION, AgentConfig, AnyAction, Thread, is_uuid
from perdure.protocols.threadprotocol.recording import Recording
from perdure.protocols.threadprotocol.response import add_message, shown_parts
from perdure.protocols.threadprotocol.upp_content import read_blocks, signatures_of, spoken_parts
from perdure.uap.ids import derive_id
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.content import ReasoningBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.thread import Thread as UPPThread
from perdure.upp.timestamp import format_timestamp
from perdure.upp.usage import TokenUsage

EXTENSION = "perdure"
"""The member of a thread's metadata that is ours."""


@dataclass(frozen=True, slots=True)
class Said:
    """What is known of an assistant message beside itself.

    Attributes:
        agent_id: who said it, if not the session's own agent.
        finish_reason: in ThreadProtocol's words.
        usage: of its model call.
    """

    agent_id: str | None = None
    finish_reason: Literal["stop", "tool_call", "length", "content_filter"] | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """A system action to be put among the messages.

    Attributes:
        before: the key of the message that it stands before; None for the end.
        action_type: such as `system.tool_grant`.
        data: JSON.
        timestamp: when it was; the action's before it if None.
    """

    before: str | None
    action_type: str
    data: JSONValue
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class Telling:
    """Whose conversation it is, and what is known beside the messages.

    A message's key is its id, unless another is given: vendors' ids may come again.

    Attributes:
        agents: all that may act; the first is the session's own.
        said: by message key.
        noted: system actions, in order.
        joins: whether `system.agent_join` is put before an agent's first action.
    """

    agents: Sequence[AgentConfig]
    said: Mapping[str, Said] = field(default_factory=dict[str, Said])
    noted: Sequence[Noted] = ()
    joins: bool = True


def thread_id_of(node_id: str) -> str:
    """The thread's id for a node's: the same if it is a UUID, else one that is derived from it."""
    return node_id if is_uuid(node_id) else derive_id(node_id, "threadprotocol")


def threads_from_tree(
    tree: ThreadTree,
    *,
    title: str,
    telling: Telling,
    parent: str | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
) -> list[Thread]:
    """The threads of a session's tree, parents before their branches.

    Args:
        tree: the session's.
        title: the session's; a branch adds its name.
        telling: whose conversation it is.
        parent: for a sub-agent's session, the id of the thread that it was called from.
        keys: by node id, the keys of its messages in order; their ids if None.
    """
    nodes, order = tree.nodes, [tree.root.id]
    for node_id in order:
        order += nodes[node_id].children
    known = keys or {}
    return [
        _of_node(nodes[node_id], title, telling, parent, known.get(node_id), is_current=tree.current.id == node_id)
        for node_id in order
    ]


def thread_from_upp(
    thread: UPPThread,
    *,
    title: str,
    telling: Telling,
    thread_id: str | None = None,
    parent: str | None = None,
    metadata: JSONObject | None = None,
    keys: Sequence[str] | None = None,
) -> Thread:
    """One UPP thread.

    Args:
        thread: UPP's.
        title: for people.
        telling: whose conversation it is.
        thread_id: the UUID that it gets; its own id, or one that is derived from it, if None.
        parent: the UUID of the thread that it branched from.
        metadata: of the thread.
        keys: of its messages, in order; their ids if None.
    """
    created = format_timestamp(thread.created_at)
    times = [format_timestamp(message.timestamp) for message in thread]
    created = min([created, *times])
    actions = actions_from_upp(thread, telling=telling, not_before=created, keys=keys)
    head: JSONObject = {
        "version": VERSION,
        "thread_id": thread_id_of(thread.id) if thread_id is None else thread_id,
        "parent_thread_id": parent,
        "created_at": created,
        "updated_at": max([format_timestamp(thread.updated_at), created, *(action.timestamp for action in actions)]),
        "title": title,
        "metadata": metadata,
    }
    agents = {agent.agent_id: agent for agent in telling.agents}
    return Thread.model_validate({**head, "agents": agents, "actions": actions})


def actions_from_upp(
    messages: Iterable[Message],
    *,
    telling: Telling,
    not_before: str,
    first: int = 1,
    keys: Sequence[str] | None = None,
) -> list[AnyAction]:
    """The actions of UPP messages, oldest first.

    Args:
        messages: in order.
        telling: whose they are.
        not_before: the thread's creation, or the last action's time.
        first: the first action's number.
        keys: of the messages; their ids if None.
    """
    reading = Reading(telling, Recording(first=first, not_before=not_before))
    for place, message in enumerate(messages):
        reading.take(message, message.id if keys is None else keys[place])
    reading.note(None)
    return reading.recording.actions


def _of_node(
    node: ThreadNode, title: str, telling: Telling, parent: str | None, keys: Sequence[str] | None, *, is_current: bool
) -> Thread:
    own: JSONObject = {"node_id": node.id, "thread_id": node.thread.id, "is_current": is_current, "title": title}
    named: JSONObject = {"name": node.name, "fork_index": node.fork_index, "metadata": node.metadata or None}
    own |= {key: value for key, value in named.items() if value is not None}
    return thread_from_upp(
        node.thread,
        title=title if node.parent_id is None else f"{title} / {node.name or 'branch'}",
        telling=telling,
        thread_id=thread_id_of(node.id),
        parent=parent if node.parent_id is None else thread_id_of(node.parent_id),
        metadata={EXTENSION: own},
        keys=keys,
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """Messages of one thread as actions, one after the other.

    Attributes:
        telling: whose they are; what it holds may grow on the way.
        recording: the actions.
        joined: ids of the agents that have acted.
    """

    telling: Telling
    recording: Recording
    joined: set[str] = field(default_factory=set[str])

    def take(self, message: Message, key: str) -> None:
        """Records the next message, after the system actions that stand before it."""
        self.note(key)
        self._read(message, key)

    def note(self, before: str | None) -> None:
        """Records the system actions that stand before a message; None for those at the end."""
        for noted in self.telling.noted:
            if noted.before == before:
                self.recording.add(noted.action_type, {"data": noted.data}, noted.timestamp)

    def _read(self, message: Message, key: str) -> None:
        at, origin = format_timestamp(message.timestamp), {"message_id": message.id}
        match message:
            case UserMessage():
                self.recording.add("user_message", {"content": read_blocks(message.content), **origin}, at)
            case AssistantMessage():
                self._read_answer(message, at, self.telling.said.get(key, Said()))
            case ToolResultMessage():
                for result in message.results:
                    status = "error" if result.is_error else "success"
                    fields: JSONObject = {"status": status, "content": result.result, **origin}
                    self.recording.give_back(result.tool_call_id, fields, at)
            case _:
                raise AssertionError(f"{message.type} is no kind of message")

    def _read_answer(self, message: AssistantMessage, at: str, said: Said) -> None:
        agent_id = self.telling.agents[0].agent_id if said.agent_id is None else said.agent_id
        self._join(agent_id, at)
        origin: JSONObject = {"message_id": message.id}
        calls = message.tool_calls or []
        spoken = spoken_parts(message)
        shown = shown_parts([*spoken, *(None for _ in calls)])
        thoughts = iter(signatures_of(message))
        for index, block in enumerate(message.content):
            if index == shown.place:
                add_message(self.recording, agent_id, shown.content, at, said.finish_reason, _usage(said.usage), origin)
            if isinstance(block, ReasoningBlock):
                fields: JSONObject = {"agent_id": agent_id, "content": block.text or None, **next(thoughts), **origin}
                if not block.text:
                    del fields["content"]
                self.recording.add("thinking", fields, at)
        if not message.content and not calls:
            add_message(self.recording, agent_id, "", at, said.finish_reason, _usage(said.usage), origin)
        for call in calls:
            asked: JSONObject = {"agent_id": agent_id, "tool_name": call.tool_name, "args": call.arguments, **origin}
            self.recording.call(call.tool_call_id, asked, at)

    def _join(self, agent_id: str, at: str) -> None:
        if self.telling.joins and agent_id not in self.joined:
            self.joined.add(agent_id)
            self.recording.add("system.agent_join", {"data": {"agent_id": agent_id}}, at)


def _usage(usage: TokenUsage | None) -> JSONObject | None:
    if usage is None:
        return None
    counts = (usage.input_tokens, usage.output_tokens, usage.input_tokens + usage.output_tokens)
    return dict(zip(("input_tokens", "output_tokens", "total_tokens"), counts, strict=True))
