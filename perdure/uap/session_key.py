"""Which session: its tenant and id, together, as every row and workflow names it."""

from __future__ import annotations

from typing import NamedTuple

from perdure.errors import InvalidInput, UnknownSession
from perdure.uap.ids import is_uuid4


class SessionKey(NamedTuple):
    """A session's tenant and id."""

    tenant: str
    session: str

    @property
    def workflow_id(self) -> str:
        """The id of the session's workflow in Temporal."""
        return f"session/{self.tenant}/{self.session}"

    @property
    def stage_workflow_id(self) -> str:
        """The id of the workflow in Temporal of a stage session."""
        return f"stage/{self.tenant}/{self.session}"


_LONGEST = 200


def unknown_session(text: str) -> UnknownSession:
    """The error for an id that no session has.

    Raises:
        InvalidInput: it is no UUIDv4: only an import could have such an id.
    """
    checked_session_id(text)
    return UnknownSession(f"no session {text}; `perdure sessions list` shows those there are")


def known_session_id(text: str) -> str:
    """The id of a session that is there already, which another system may have made.

    Raises:
        InvalidInput: no session can have it.
    """
    lowered = text.strip().lower() if len(text) < 64 else ""
    if is_uuid4(lowered):
        return lowered
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise InvalidInput(
            f"session id {text[:40]!r} is not a UUIDv4, nor 1 to {_LONGEST} printable characters as an imported session's; "
            "leave it out to get one, or use uuid.uuid4()"
        )
    return text


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
