"""What the stage machine knows of the state: which keys there are and how large they are, never a value.

So the execution state of a session stays small, and the values stay in their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure.uaip.refusal import Reason, Refusal
from perdure.upp.json_value import JSONValue, dumps

MAX_STATE_BYTES = 1_000_000
"""How large the JSON of all values and keys of a session may be."""

MAX_STATE_KEYS = 1_000


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of the state without its values.

    Attributes:
        version: of the state that it is made on.
        sizes: bytes of each new or changed key, as `size_of` counts.
        deleted: keys that are no more.
    """

    version: int = 0
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    deleted: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.sizes and not self.deleted

    def apply(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes after this change."""
        return {key: size for key, size in sizes.items() if key not in self.deleted} | self.sizes


def size_of(key: str, value: JSONValue) -> int:
    """Bytes that a key takes of the state: its JSON, with colon and comma."""
    return len(dumps(key)) + len(dumps(value)) + 2


def too_large(sizes: Mapping[str, int]) -> Refusal | None:
    """The refusal of a state of such keys, or None if it may be."""
    total = sum(sizes.values())
    if total > MAX_STATE_BYTES:
        what = f"{total:,} bytes; a session's state has at most {MAX_STATE_BYTES:,}"
    elif len(sizes) > MAX_STATE_KEYS:
        what = f"{len(sizes):,} keys; a session's state has at most {MAX_STATE_KEYS:,}"
    else:
        return None
    return Refusal(Reason.STATE_TOO_LARGE, f"State too large: it would have {what}")
