"""How an agent that `delegate` hands a task to is named, and found again by the call. Pure: workflow code reads it too."""

from __future__ import annotations

from perdure.upp.tool_call import ToolCall

AGENT = "agent"
"""The argument that says who is to do it."""


def delegated_name(tool: str, label: str) -> str:
    """How specs and paths name an agent that a tool hands tasks to. No tool can be called so."""
    return f"{tool}:{label}"


def delegated_agent(call: ToolCall) -> str | None:
    """What a spec would call the sub-agent that a tool call names; None if the call names none."""
    arguments = call.arguments
    label = arguments.get(AGENT) if isinstance(arguments, dict) else None
    return delegated_name(call.tool_name, label) if isinstance(label, str) else None
