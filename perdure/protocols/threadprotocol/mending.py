"""What lenient reading makes of a thread whose objects do not fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from perdure.protocols.threadprotocol.models import (
    AgentConfig,
    AnyAction,
    AssistantMessageAction,
    ThinkingAction,
    ThreadHead,
    ToolCallAction,
    ToolReturnAction,
)
from perdure.protocols.threadprotocol.rules import safe_name

ActionT = TypeVar("ActionT", bound=AnyAction)


def mend_actions(actions: Sequence[AnyAction], not_before: str) -> list[AnyAction]:
    """The actions that fit, numbered 1, 2, 3, with times that never go back.

    Args:
        actions: in the document's order.
        not_before: the thread's creation.
    """
    mended: list[AnyAction] = []
    latest = not_before
    for number, action in enumerate(_matched(actions), start=1):
        latest = max(latest, action.timestamp)
        mended.append(numbered(action, number, latest))
    return mended


def numbered(action: ActionT, sequence: int, timestamp: str) -> ActionT:
    """The same action at another place."""
    return action.model_copy(update={"sequence": sequence, "timestamp": timestamp})


def mend_head(head: ThreadHead, actions: Sequence[AnyAction]) -> ThreadHead:
    """The head with every agent that acts in its registry, ids as keys, identifiers and names that can be used."""
    agents: dict[str, AgentConfig] = {}
    taken: set[str] = set()
    for key, agent in [*head.agents.items(), *_unknown(head, actions)]:
        identifier = agent.agent_identifier
        while identifier in taken:
            identifier = f"{identifier}_{key}"
        taken.add(identifier)
        changes = {"agent_id": key, "agent_identifier": identifier, "agent_name": safe_name(agent.agent_name)}
        agents[key] = agent.model_copy(update=changes)
    parent = head.parent_thread_id
    own_parent = parent is not None and parent.lower() == head.thread_id.lower()
    last = max([head.updated_at, head.created_at, *(action.timestamp for action in actions)])
    changes = {"agents": agents, "parent_thread_id": None if own_parent else parent, "updated_at": last}
    return head.model_copy(update=changes)


def _matched(actions: Sequence[AnyAction]) -> Iterator[AnyAction]:
    open_calls: dict[str, str] = {}
    seen: set[str] = set()
    for action in actions:
        if isinstance(action, ToolCallAction):
            if action.tool_call_id in seen:
                continue
            seen.add(action.tool_call_id)
            open_calls[action.tool_call_id] = action.tool_name
        elif isinstance(action, ToolReturnAction):
            if open_calls.get(action.tool_call_id) != action.tool_name:
                continue
            del open_calls[action.tool_call_id]
        yield action


def _unknown(head: ThreadHead, actions: Sequence[AnyAction]) -> list[tuple[str, AgentConfig]]:
    acting = (
        action.agent_id
        for action in actions
        if isinstance(action, AssistantMessageAction | ThinkingAction | ToolCallAction)
    )
    return [
        (name, AgentConfig(agent_id=name, agent_identifier=name, agent_name=name, created_at=head.created_at))
        for name in dict.fromkeys(acting)
        if name not in head.agents
    ]
