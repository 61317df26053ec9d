"""What the objects of a thread must be to each other. Source: ThreadProtocol 1.0.0, Validation Rules.

Each rule takes the head and the actions by their place in the document, and yields what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from perdure.protocols.threadprotocol.canonical import uncanonical
from perdure.protocols.threadprotocol.models import (
    AnyAction,
    AssistantMessageAction,
    SystemAction,
    ThinkingAction,
    ThreadHead,
    ToolCallAction,
    ToolReturnAction,
    is_uuid,
)
from perdure.protocols.threadprotocol.problem import Problem

Actions = Mapping[int, AnyAction]
_UNSAFE_NAME = re.compile(r"[}\r\n\u0085\u2028\u2029]")
_PLAIN_SYSTEM = re.compile(r"system\.[a-z0-9_.]+")


def safe_name(name: str) -> str:
    """An agent's name as the prefix `{agent:Name}: ` can carry it: no closing brace, no line break."""
    return _UNSAFE_NAME.sub("_", name)


def agents_rule(head: ThreadHead) -> Iterator[Problem]:
    """Keys are their agents' ids, identifiers are unique, names can stand in a prefix, ids should be UUIDs."""
    owners: dict[str, str] = {}
    for key, agent in head.agents.items():
        path = f"agents.{key}"
        if agent.agent_id != key:
            message = f"{agent.agent_id!r:.80} stands under the key {key!r:.80}"
            yield Problem(f"{path}.agent_id", "agent_key", message, "use the agent's id as its key")
        owner = owners.setdefault(agent.agent_identifier, key)
        if owner != key:
            message = f"{agent.agent_identifier!r:.80} is the identifier of {owner!r:.80} too"
            yield Problem(f"{path}.agent_identifier", "agent_identifier", message, "give each agent its own")
        if safe_name(agent.agent_name) != agent.agent_name:
            message = "a closing brace or a line break in it could pass for another agent's words"
            yield Problem(f"{path}.agent_name", "agent_name", message, "use a name without them")
        if not is_uuid(agent.agent_id):
            yield Problem(f"{path}.agent_id", "agent_uuid", "it is not a UUID", "use a UUIDv4", "warning")


def lineage_rule(head: ThreadHead) -> Iterator[Problem]:
    """A thread is not its own parent, and is not updated before it is made."""
    parent = head.parent_thread_id
    if parent is not None and parent.lower() == head.thread_id.lower():
        yield Problem("parent_thread_id", "parent", "the thread is its own parent", "name the thread it branched from")
    if head.updated_at < head.created_at:
        yield Problem(
            "updated_at", "timestamp", "it is before created_at", "use the last action's time, or a later one"
        )


def agent_id_rule(head: ThreadHead, actions: Actions) -> Iterator[Problem]:
    """Who acts is in the registry."""
    for index, action in actions.items():
        acts = isinstance(action, AssistantMessageAction | ThinkingAction | ToolCallAction)
        if acts and action.agent_id not in head.agents:
            message = f"{action.agent_id!r:.80} is no key of the agents registry"
            yield Problem(f"actions[{index}].agent_id", "agent_id", message, "add the agent to `agents`")


def sequence_rule(actions: Actions) -> Iterator[Problem]:
    """Sequence numbers are 1, 2, 3 and so on, in the order of the list."""
    for index, action in actions.items():
        if action.sequence != index + 1:
            message = f"it is {action.sequence}, and the action is number {index + 1} of the thread"
            yield Problem(f"actions[{index}].sequence", "sequence", message, "number actions 1, 2, 3 in order")


def timestamp_rule(head: ThreadHead, actions: Actions) -> Iterator[Problem]:
    """No action is before the one above it, the first not before the thread, the last not after its update."""
    latest = head.created_at
    for index, action in actions.items():
        if action.timestamp < latest:
            message = f"{action.timestamp} is before {latest}, where the thread already was"
            yield Problem(f"actions[{index}].timestamp", "timestamp", message, "give a time that is not earlier")
        latest = max(latest, action.timestamp)
    if head.updated_at < latest and head.updated_at >= head.created_at:
        message = f"{head.updated_at} is before the last action"
        yield Problem("updated_at", "timestamp", message, "use the last action's time, or a later one")


def tool_rule(actions: Actions, *, closed: bool = False) -> Iterator[Problem]:
    """Every call id is called once, and returned at most once, later and under the same name."""
    called: dict[str, tuple[int, str]] = {}
    returned: set[str] = set()
    for index, action in actions.items():
        path = f"actions[{index}].tool_call_id"
        if isinstance(action, ToolCallAction):
            if action.tool_call_id in called:
                message = f"{action.tool_call_id!r:.80} was called before"
                yield Problem(path, "tool_call_id", message, "give each call an id of its own")
            called.setdefault(action.tool_call_id, (index, action.tool_name))
        elif isinstance(action, ToolReturnAction):
            yield from _return_faults(action, index, called, returned)
            returned.add(action.tool_call_id)
    for call_id, (index, _) in called.items():
        if closed and call_id not in returned:
            message = f"the call {call_id!r:.80} has no return, and the thread is closed"
            yield Problem(f"actions[{index}].tool_call_id", "open_call", message, "add a return with status error")


def _return_faults(
    action: ToolReturnAction, index: int, called: Mapping[str, tuple[int, str]], returned: set[str]
) -> Iterator[Problem]:
    path, call = f"actions[{index}].tool_call_id", called.get(action.tool_call_id)
    if call is None:
        message = f"no call {action.tool_call_id!r:.80} stands above this return"
        yield Problem(path, "tool_return", message, "add the tool_call above it, or leave the return out")
    elif call[1] != action.tool_name:
        message = f"{action.tool_name!r:.80} returns a call of {call[1]!r:.80}"
        yield Problem(f"actions[{index}].tool_name", "tool_return", message, "use the name of the call")
    elif action.tool_call_id in returned:
        message = f"{action.tool_call_id!r:.80} has returned before"
        yield Problem(path, "tool_return", message, "keep one return of each call")


def naming_rule(actions: Actions) -> Iterator[Problem]:
    """System types are lower case; action ids are UUIDs. Both are only told."""
    for index, action in actions.items():
        if isinstance(action, SystemAction) and _PLAIN_SYSTEM.fullmatch(action.action_type) is None:
            message = f"{action.action_type!r:.80} is not of lower-case letters, digits, '_' and '.'"
            yield Problem(f"actions[{index}].action_type", "action_type", message, "rename it", "warning")
        if action.action_id is not None and not is_uuid(action.action_id):
            yield Problem(f"actions[{index}].action_id", "action_id", "it is not a UUID", "use a UUIDv4", "warning")


def canonical_rule(head: ThreadHead, actions: Actions) -> Iterator[Problem]:
    """Everything has a canonical form."""
    yield from uncanonical(head.to_json(), "")
    for index, action in actions.items():
        yield from uncanonical(action.to_json(), f"actions[{index}]")
