"""How what one run was frozen to differs from what the next one is."""

from __future__ import annotations

from typing import cast

from perdure.upp.json_value import JSONObject, JSONValue


def spec_changes(before: JSONObject, after: JSONObject) -> JSONObject:
    """What changed from one AgentSpec JSON to another; empty if nothing did.

    Returns:
        `tools` with the names `added`, `removed` and `changed`, and each other member that differs with its `before` and
        `after`; null stands for a member that is not there.
    """
    found: JSONObject = {}
    tools = _tool_changes(_by_name(before.get("tools")), _by_name(after.get("tools")))
    if tools:
        found["tools"] = tools
    for name in sorted({*before, *after} - {"tools"}):
        if before.get(name) != after.get(name):
            found[name] = {"before": before.get(name), "after": after.get(name)}
    return found


def _tool_changes(before: JSONObject, after: JSONObject) -> JSONObject:
    sets = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and before[name] != after[name]],
    }
    return {kind: list[JSONValue](names) for kind, names in sets.items() if names}


def _by_name(tools: JSONValue) -> JSONObject:
    return {str(tool.get("name")): tool for tool in cast("list[JSONObject]", tools or [])}
