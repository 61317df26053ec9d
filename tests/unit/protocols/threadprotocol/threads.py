"""Threads that the tests read: the specification's example, and others that are built of short lists."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, cast

from perdure.protocols.threadprotocol.models import Thread
from perdure.protocols.threadprotocol.problem import Problem
from perdure.protocols.threadprotocol.validation import problems_of, read_thread
from perdure.upp.json_value import JSONObject

START = "2025-01-15T10:00:00.000Z"
THREAD_ID = "550e8400-e29b-41d4-a716-446655440000"
FRED, ANNA = "0b0a7f2e-6f0f-4b43-8a51-5d1a3b2c4d5e", "1c1b8a3f-7a1a-4c54-9b62-6e2b4c3d5e6f"
_EXAMPLE = json.loads(Path(__file__).with_name("example.json").read_text(encoding="utf-8"))


def example() -> dict[str, Any]:
    """The specification's example thread."""
    return copy.deepcopy(cast("dict[str, Any]", _EXAMPLE))


def agent(agent_id: str, name: str) -> JSONObject:
    return {"agent_id": agent_id, "agent_identifier": f"{name.lower()}_v1", "agent_name": name, "created_at": START}


def document(*actions: JSONObject) -> dict[str, Any]:
    """A thread of two agents, Fred and Anna; each action gets its number, and a time a second after the last."""
    dated = [
        {"timestamp": f"2025-01-15T10:00:{place:02d}.000Z", "sequence": place, **action}
        for place, action in enumerate(actions, start=1)
    ]
    return {
        "version": "1.0.0",
        "thread_id": THREAD_ID,
        "created_at": START,
        "updated_at": "2025-01-15T10:59:00.000Z",
        "title": "A talk",
        "agents": {FRED: agent(FRED, "Fred"), ANNA: agent(ANNA, "Anna")},
        "actions": dated,
    }


def thread(*actions: JSONObject) -> Thread:
    return read_thread(document(*actions))


def user(content: Any = "hi") -> JSONObject:
    return {"action_type": "user_message", "content": content}


def says(content: Any = "hello", agent_id: str = FRED, **more: Any) -> JSONObject:
    return {"action_type": "assistant_message", "agent_id": agent_id, "content": content, **more}


def thinks(content: str = "hm", agent_id: str = FRED, **more: Any) -> JSONObject:
    fields: JSONObject = {"agent_id": agent_id, "content": content, "provider_name": "anthropic"}
    return {"action_type": "thinking", **fields, **more}


def calls(call_id: str = "c1", agent_id: str = FRED, **more: Any) -> JSONObject:
    fields: JSONObject = {"agent_id": agent_id, "tool_name": "search", "tool_call_id": call_id, "args": {"q": "x"}}
    return {"action_type": "tool_call", **fields, **more}


def returns(call_id: str = "c1", **more: Any) -> JSONObject:
    fields: JSONObject = {"tool_name": "search", "tool_call_id": call_id, "status": "success", "content": {"n": 1}}
    return {"action_type": "tool_return", **fields, **more}


def errors(value: Any, *, closed: bool = False) -> list[Problem]:
    return [problem for problem in problems_of(value, closed=closed) if problem.severity == "error"]


def only_error(value: Any) -> tuple[str, str]:
    """Path and rule of the only error."""
    found = errors(value)
    assert len(found) == 1, [str(problem) for problem in found]
    assert found[0].remedy
    return found[0].path, found[0].rule
