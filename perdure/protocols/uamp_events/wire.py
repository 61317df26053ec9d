"""What every wire model and every event of UAMP has. Source: UAMP 1.0, sections 4 and 14.3."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.upp.json_value import JSONObject

VERSION = "1.0"
"""The version that this server speaks."""


class WireModel(BaseModel):
    """A JSON object of the wire: values have exactly their type, members that nobody knows are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    def to_json(self) -> JSONObject:
        """Its members that have a value; none is null but inside free JSON."""
        return self.model_dump(exclude_none=True, by_alias=True)


class Event(WireModel):
    """What all events have.

    Attributes:
        event_id: unique in a connection; a UUID where we write it.
        timestamp: milliseconds since the epoch.
        session_id: which session of the connection it is about.
    """

    event_id: str = Field(min_length=1)
    timestamp: int | float | None = None
    session_id: str | None = None


ResponseStatus = Literal["completed", "cancelled", "failed"]


def speaks(version: str) -> bool:
    """Whether a client's version is ours: the same major number, whatever its minor one. Source: section 14.3."""
    major, dot, minor = version.partition(".")
    return dot == "." and major == VERSION.partition(".")[0] and minor.isascii() and minor.isdigit()
