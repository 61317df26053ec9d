"""OpenRouter's `reasoning_details`: the parts of a model's reasoning, which must be given back as they came."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.json_value import JSONObject

_GROWING = ("text", "summary")
_WHOLE_TYPES = frozenset({"reasoning.encrypted"})


def merge_details(details: list[JSONObject], pieces: Sequence[JSONObject]) -> None:
    """Adds the pieces of a chunk to the parts so far, in place.

    A piece belongs to the part of the same type, index and id; its text is added, whatever else it says, such as the
    signature that comes at the end, is set. Encrypted parts always come whole.
    """
    for piece in pieces:
        part = _part_of(piece, details)
        if part is None:
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            before = part.get(name)
            if name in _GROWING and isinstance(value, str) and isinstance(before, str):
                part[name] = before + value
            elif value is not None or name not in part:
                part[name] = value


def _part_of(piece: JSONObject, details: Sequence[JSONObject]) -> JSONObject | None:
    if piece.get("type") in _WHOLE_TYPES:
        return None
    if piece.get("index") is None:
        last = details[-1] if details else None
        return last if last is not None and _same(piece, last) else None
    return next((part for part in details if _same(piece, part)), None)


def _same(piece: JSONObject, part: JSONObject) -> bool:
    same_id = piece.get("id") is None or part.get("id") is None or piece["id"] == part["id"]
    return same_id and all(piece.get(name) == part.get(name) for name in ("type", "index"))
