"""A JSON document, read object by object, so that one bad action hides nothing of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import ValidationError

from perdure.protocols.threadprotocol.models import CORE, AnyAction, Record, ThreadHead, action_model
from perdure.protocols.threadprotocol.problem import Problem
from perdure.upp.json_value import MAX_DEPTH, JSONObject, JSONValue

RecordT = TypeVar("RecordT", bound=Record)
_REMEDIES = {
    "missing": "add it",
    "literal_error": "use one of these values",
    "int_type": "write a whole number, without a decimal point",
    "string_type": "write a text",
    "greater_than_equal": "use a larger number",
    "value_error": "correct it",
}


@dataclass(slots=True)
class Parsed:
    """What could be read.

    Attributes:
        head: all but the actions; None if it cannot be read.
        actions: by their place in the document; those that cannot be read are missing.
        problems: why something could not be read.
    """

    head: ThreadHead | None = None
    actions: dict[int, AnyAction] = field(default_factory=dict[int, AnyAction])
    problems: list[Problem] = field(default_factory=list[Problem])


def parse(value: JSONValue) -> Parsed:
    """What of a document has the form of a thread; the rules are not asked."""
    parsed = Parsed()
    if not isinstance(value, dict):
        parsed.problems.append(Problem("thread", "schema", "it is not a JSON object", "send a ThreadProtocol thread"))
        return parsed
    if _is_too_deep(value):
        message = f"it is nested more than {MAX_DEPTH} levels deep"
        parsed.problems.append(Problem("thread", "depth", message, "send deeper values as text"))
        return parsed
    head = {name: item for name, item in value.items() if name != "actions"}
    parsed.head = _read(ThreadHead, head, "", parsed.problems)
    actions = value.get("actions")
    if not isinstance(actions, list):
        found = "must be a list" if "actions" in value else "is missing"
        parsed.problems.append(Problem("actions", "schema", found, "send a list of actions, empty if there are none"))
        return parsed
    for index, item in enumerate(actions):
        action = _read_action(item, f"actions[{index}]", parsed.problems)
        if action is not None:
            parsed.actions[index] = action
    return parsed


def _is_too_deep(value: JSONValue) -> bool:
    level: list[JSONValue] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return bool(level)


def _read_action(item: JSONValue, path: str, problems: list[Problem]) -> AnyAction | None:
    if not isinstance(item, dict):
        problems.append(Problem(path, "schema", "it is not a JSON object", "send an action"))
        return None
    kind = item.get("action_type")
    model = action_model(kind)
    if model is None:
        known = f"use {', '.join(CORE)}, or a name that begins with 'system.'"
        problems.append(Problem(f"{path}.action_type", "action_type", f"{kind!r:.80} is no type of action", known))
        return None
    return _read(model, item, path, problems)


def _read(model: type[RecordT], source: JSONObject, path: str, problems: list[Problem]) -> RecordT | None:
    try:
        return model.model_validate(source)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            place = path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
            rule = str(fault["loc"][0]) if fault["loc"] else "schema"
            problems.append(
                Problem(
                    place.removeprefix(".") or "thread",
                    "action_type" if rule == "action_type" else rule if rule in ("version", "sequence") else "schema",
                    fault["msg"].removeprefix("Value error, "),
                    _REMEDIES.get(fault["type"], "write it as the specification does"),
                )
            )
        return None
