"""What is kept of an answer's items in its message's metadata: all of them in order, less what the message itself has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perdure.upp.json_value import JSONObject, JSONValue


def reduce_items(items: Sequence[JSONObject]) -> list[JSONValue]:
    """Returns an answer's items without texts and images, and without blank texts, which no vendor wants back."""
    return [reduced for item in items if (reduced := _reduce(item)) is not None]


def part_text(part: JSONObject) -> str:
    """Returns what one part of an item says, be it text or a refusal."""
    text = part.get("refusal") if part.get("type") == "refusal" else part.get("text")
    return text if isinstance(text, str) else ""


def message_parts(item: JSONObject) -> list[JSONObject]:
    """Returns the parts of a message item that say something."""
    return [part for part in objects(item.get("content")) if part_text(part).strip()]


def reasoning_text(item: JSONObject) -> str:
    """Returns what a reasoning item shows of the reasoning: its summaries and its text, with blank lines between."""
    parts = [*objects(item.get("summary")), *objects(item.get("content"))]
    return "\n\n".join(text for part in parts if (text := part_text(part)))


def objects(value: JSONValue) -> list[JSONObject]:
    """Returns the objects of a list; nothing of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def without(item: JSONObject, *names: str) -> JSONObject:
    """Returns an object without some of its fields."""
    return {name: value for name, value in item.items() if name not in names}


def _reduce(item: JSONObject) -> JSONObject | None:
    match item.get("type"):
        case "message":
            parts = [without(part, "text", "refusal") for part in message_parts(item)]
            return {**_present(item), "content": cast("list[JSONValue]", parts)} if parts else None
        case "reasoning":
            return _present(item if item.get("content") else without(item, "content"))
        case "function_call":
            return _present(item)
        case "image_generation_call" if item.get("result"):
            return without(item, "result")
        case _:
            return dict(item)


def _present(item: JSONObject) -> JSONObject:
    """Returns an item without null fields: the vendor writes them, but does not read them."""
    return {name: value for name, value in item.items() if value is not None}
