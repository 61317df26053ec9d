"""Which session: its tenant and id, together, as every row and workflow names it."""

from __future__ import annotations

from typing import NamedTuple

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4


class SessionKey(NamedTuple):
    """A session's tenant and id."""

    tenant: str
    session: str

    @property
    def workflow_id(self) -> str:
        """The id of the session's workflow in Temporal."""
        return f"session/{self.tenant}/{self.session}"


def checked_session_id(text: str) -> str:
    """A session id that a caller chose. Source: UAP-1.0 section 6.5, requirement 6.

    Raises:
        InvalidInput: not a UUIDv4.
    """
    lowered = text.strip().lower() if len(text) < 64 else ""
    if not is_uuid4(lowered):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidInput(f"session id {shown!r} is not a UUIDv4; leave it out to get one, or use uuid.uuid4()")
    return lowered
