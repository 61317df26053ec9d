"""The options of a session. Source: UAP-1.0 section 6.1, SessionOptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from perdure.errors import InvalidInput
from perdure.uap.persistence import PersistenceAdapter
from perdure.uap.session_key import checked_session_id
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject, jsonable

Interval: TypeAlias = Literal["step", "turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What `session` is given.

    Attributes:
        id: a UUIDv4; drawn if left out.
        checkpoints: whether checkpoints are taken.
        checkpoint_interval: "step" takes one at every step's end, "turn" one when the turn is in the thread.
        persistence: where the session is saved; by default in memory.
        metadata: the user's own data, JSON.
        limits: what its runs may use together; None for no limits.

    Raises:
        InvalidInput: an option that cannot be used.
    """

    id: str | None = None
    checkpoints: bool = True
    checkpoint_interval: Interval = "step"
    persistence: PersistenceAdapter | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: SessionLimits | None = None

    def __post_init__(self) -> None:
        if self.id is not None:
            object.__setattr__(self, "id", checked_session_id(self.id))
        if self.checkpoint_interval not in ("step", "turn"):
            raise InvalidInput(f"checkpoint_interval is {self.checkpoint_interval!r:.80}; it must be 'step' or 'turn'")
        object.__setattr__(self, "metadata", json_metadata(self.metadata))

    @property
    def interval(self) -> Interval | None:
        """When checkpoints are taken; None for never."""
        return self.checkpoint_interval if self.checkpoints else None


def json_metadata(metadata: Mapping[str, Any]) -> JSONObject:
    """A copy of a session's metadata, known to be JSON. Raises InvalidInput."""
    try:
        return cast(JSONObject, jsonable(metadata))
    except TypeError as error:
        raise InvalidInput(f"session metadata must be JSON: {error}") from error
