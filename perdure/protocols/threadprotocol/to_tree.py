"""Threads as a session's thread tree, and one thread as UPP messages, as one of its agents sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from perdure.errors import InvalidInput
from perdure.protocols.threadprotocol.from_tree import EXTENSION
from perdure.protocols.threadprotocol.models import (
    AnyAction,
    AssistantMessageAction,
    ThinkingAction,
    Thread,
    ToolCallAction,
    ToolReturnAction,
    UserMessageAction,
)
from perdure.protocols.threadprotocol.upp_content import write_assistant, write_user
from perdure.protocols.threadprotocol.viewing import Entry, Prompt, Response, Results, View, by_provider, view_thread
from perdure.uap.ids import derive_id
from perdure.uap.thread_node import FORK_INDEX, ThreadNode
from perdure.uap.thread_tree import ROOT_NAME, ThreadTree
from perdure.upp.content import AssistantContent, ReasoningBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.thread import Thread as UPPThread
from perdure.upp.timestamp import parse_timestamp
from perdure.upp.tool_call import ToolCall, ToolResult


def messages_from_thread(thread: Thread, agent_id: str, view: View | None = None) -> list[Message]:
    """UPP's messages of a thread, as an agent goes on from them.

    Ids are those that the thread noted, else derived from the thread's id and the action's number.

    Raises:
        InvalidInput: the thread has no such agent.
    """
    return [_message(thread.thread_id, entry) for entry in view_thread(thread, agent_id, view)]


def tree_from_threads(threads: Sequence[Thread], agent_ids: Mapping[str, str], view: View | None = None) -> ThreadTree:
    """The thread tree of a session, of its threads.

    Args:
        threads: one without a parent among them, and branches of these, in any order.
        agent_ids: by thread id, the agent whose session it becomes.
        view: what it is shown of other agents.

    Raises:
        InvalidInput: they are no tree, or an agent is not in its thread.
    """
    known = {thread.thread_id: thread for thread in threads}
    roots = [thread for thread in threads if thread.parent_thread_id not in known]
    if len(roots) != 1 or len(known) != len(threads):
        found = ", ".join(thread.thread_id for thread in roots) or "none"
        raise InvalidInput(f"threads must have ids of their own and one root; roots are: {found}")
    nodes: dict[str, ThreadNode] = {}
    for thread in _parents_first(roots[0], threads):
        node = _node(thread, messages_from_thread(thread, agent_ids[thread.thread_id], view), is_root=not nodes)
        node.parent_id = None if not nodes else _node_id(known[thread.parent_thread_id or ""])
        if node.parent_id is not None:
            parent = nodes[node.parent_id]
            fork = node.metadata.setdefault(FORK_INDEX, len(parent.thread))
            if not isinstance(fork, int) or not 0 <= fork <= len(parent.thread):
                raise InvalidInput(f"thread {thread.thread_id}: fork_index {fork!r} is beyond its parent's messages")
            parent.children.append(node.id)
        nodes[node.id] = node
    if len(nodes) != len(threads):
        raise InvalidInput("threads are each other's parents; send a tree with one root")
    return ThreadTree.of(nodes.values(), _current(threads))


def _parents_first(root: Thread, threads: Sequence[Thread]) -> list[Thread]:
    order = [root]
    for thread in order:
        order += [child for child in threads if child.parent_thread_id == thread.thread_id and child is not root]
    return order


def _own(thread: Thread) -> JSONObject:
    own = (thread.metadata or {}).get(EXTENSION)
    return own if isinstance(own, dict) else {}


def _node_id(thread: Thread) -> str:
    node_id = _own(thread).get("node_id")
    return node_id if isinstance(node_id, str) and node_id else thread.thread_id


def _current(threads: Sequence[Thread]) -> str:
    marked = [thread for thread in threads if _own(thread).get("is_current") is True]
    return _node_id(marked[0] if len(marked) == 1 else max(threads, key=lambda thread: thread.updated_at))


def _node(thread: Thread, messages: Sequence[Message], *, is_root: bool) -> ThreadNode:
    own = _own(thread)
    upp_id, name, metadata = own.get("thread_id"), own.get("name"), own.get("metadata")
    upp = UPPThread(
        messages,
        id=upp_id if isinstance(upp_id, str) else thread.thread_id,
        created_at=parse_timestamp(thread.created_at),
        updated_at=parse_timestamp(thread.updated_at),
    )
    named = name if isinstance(name, str) else ROOT_NAME if is_root else thread.title
    kept: JSONObject = dict(metadata) if isinstance(metadata, dict) else {}
    return ThreadNode(_node_id(thread), upp, name=named, metadata=kept)


def _message(thread_id: str, entry: Entry) -> Message:
    first = _first(entry)
    message_id, at = _id(thread_id, first), parse_timestamp(first.timestamp)
    match entry:
        case Prompt():
            attachments = (first.attachments or []) if isinstance(first, UserMessageAction) else []
            return UserMessage(write_user(entry.content, attachments), id=message_id, timestamp=at)
        case Results():
            results = [_result(action) for action in entry.returns]
            return ToolResultMessage(results, id=message_id, timestamp=at)
        case Response():
            return _answer(entry, message_id, at)


def _first(entry: Entry) -> AnyAction:
    match entry:
        case Prompt():
            return entry.action
        case Results():
            return entry.returns[0]
        case Response():
            return entry.actions[0]


def _id(thread_id: str, action: AnyAction) -> str:
    origin = action.extensions.get("message_id")
    kind = "results" if isinstance(action, ToolReturnAction) else "message"
    return origin if isinstance(origin, str) and origin else derive_id(thread_id, kind, action.sequence)


def _result(action: ToolReturnAction) -> ToolResult:
    return ToolResult(action.tool_call_id, action.content, action.status != "success")


def _answer(response: Response, message_id: str, at: datetime) -> AssistantMessage:
    content: list[AssistantContent] = []
    signatures: list[JSONValue] = []
    provider = "unknown"
    for action in response.actions:
        if isinstance(action, ThinkingAction):
            content.append(ReasoningBlock(action.content or ""))
            signatures.append(action.signature or "")
            provider = action.provider_name
        elif isinstance(action, AssistantMessageAction):
            content += write_assistant(action.content)
    calls = [
        ToolCall(action.tool_call_id, action.tool_name, action.args)
        for action in response.actions
        if isinstance(action, ToolCallAction) and not by_provider(action)
    ]
    signed: JSONObject = (
        {"thinkingSignature": signatures[0], "thinkingSignatures": signatures} if any(signatures) else {}
    )
    metadata = {provider: cast("dict[str, object]", signed)} if signed else None
    return AssistantMessage(content, calls or None, id=message_id, timestamp=at, metadata=metadata)
