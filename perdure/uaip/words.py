"""What a model is told of an action, as text. The words are those of the first UAIP server."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.uaip.refusal import Refusal
from perdure.upp.json_value import JSONObject, JSONValue, dumps

INPUT_TAKEN = "State populated successfully."
TERMINATED = "Session terminated."
GREETED = "Session started successfully."


def task_done(name: str, result: JSONValue) -> str:
    """A task returned."""
    return f"Task '{name}' executed successfully.\n\nResult:\n{_json(result)}"


def moved(source: str, target: str) -> str:
    """The session went to another stage."""
    return f"Successfully transitioned from '{source}' to '{target}'."


def failed(message: str) -> str:
    """A task raised."""
    return f"Error: {message}"


def refused(refusal: Refusal) -> str:
    """Nothing was done."""
    allowed = texts(refusal.more.get("allowed"))
    return f"Error: {refusal.detail}" + (f"\n\nAllowed options: {', '.join(allowed)}" if allowed else "")


def missing(detail: str, keys: Sequence[str]) -> str:
    """A stage cannot be entered before keys of the state are there, as a client is told that writes actions."""
    example: JSONObject = {"action": "state_input", "state_updates": dict.fromkeys(keys, "value")}
    return f"{detail}\n\nPlease provide the values in the following format:\n{_json(example)}"


def texts(value: JSONValue) -> list[str]:
    """The texts of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _json(value: JSONValue) -> str:
    return dumps(value).decode("utf-8", "surrogatepass")
