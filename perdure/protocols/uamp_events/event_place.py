"""Ids of events that are made of a log's rows: they say where they stand, so a client resumes behind the last it has.

Such an id has the form of a UUIDv4. Its bits are the row's number, which of the row's events it is, and a digest that sets
it apart from the same place of another response.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

_SEQ, _PART, _SPARE, _DIGEST = 36, 12, 26, 48
"""Bits of each, the spare ones zero; what is larger than fits stands as the largest that does, and the digest still differs."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an event stands in a session's log.

    Attributes:
        seq: the row's number.
        part: which of the row's events it is, from 1; 0 for a place before the first.
    """

    seq: int
    part: int = 0


def placed_id(place: Place, *parts: str) -> str:
    """The id of the event at a place; `parts` set it apart from others there."""
    text = "\x1f".join(("uamp", *parts, str(place.seq), str(place.part)))
    value = _fit(place.seq, _SEQ)
    value = value << _PART | _fit(place.part, _PART)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    value = value << _SPARE + _DIGEST | int.from_bytes(digest[: _DIGEST // 8], "big")
    high, middle, low = value >> 74, value >> 62 & 0xFFF, value & (1 << 62) - 1
    return str(uuid.UUID(int=high << 80 | 4 << 76 | middle << 64 | 2 << 62 | low))


def read_place(event_id: str) -> Place | None:
    """The place that an id of ours says; None of an id that is no UUIDv4. Any other UUID gives a place of no meaning."""
    try:
        found = uuid.UUID(event_id)
    except ValueError:
        return None
    if found.version != 4:
        return None
    value = (found.int >> 80) << 74 | (found.int >> 64 & 0xFFF) << 62 | found.int & (1 << 62) - 1
    value >>= _SPARE + _DIGEST
    return Place(value >> _PART, value & (1 << _PART) - 1)


def _fit(value: int, bits: int) -> int:
    return min(value, (1 << bits) - 1)
