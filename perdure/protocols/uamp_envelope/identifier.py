"""Ids of envelopes and streams: read, compared and written.

An envelope's id is a UUID in either of two spellings; it is compared as a UUID and never written anew, for its text is
hashed. Source: UAMP envelope 1.0, section 4 and appendix A.1, which differ.
"""

from __future__ import annotations

import re
from urllib.parse import quote
from uuid import UUID

from perdure.protocols.uamp_envelope.error import malformed

MAX_STREAM_ID_CHARS = 128
MESSAGES_PATH = "/v1/messages"
STREAM_PATH_PREFIX = "/v1/stream/"

_UUID = re.compile("(?:urn:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE | re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def read_id(text: str) -> UUID:
    """The UUID of an envelope's id, whichever way it is spelled.

    Raises:
        UAMPError: 4.00.
    """
    found = _UUID.fullmatch(text)
    if found is None:
        raise malformed(f"the id {text[:60]!r} must be urn:uuid: and a UUID")
    return UUID(found[1])


def write_id(value: UUID) -> str:
    """An envelope's id, as we write it."""
    return f"urn:uuid:{value}"


def check_stream_id(text: str) -> str:
    """A stream id that can be a segment of a path.

    Raises:
        UAMPError: 4.00 if it is empty, too long, has control characters, or means another place in a path.
    """
    if not 0 < len(text) <= MAX_STREAM_ID_CHARS or _CONTROL.search(text) or text in (".", ".."):
        raise malformed(f"a stream_id has 1 to {MAX_STREAM_ID_CHARS} characters and no control characters")
    return text


def stream_location(stream_id: str) -> str:
    """The path of a stream, for `Location`; every character that is not unreserved is percent-encoded."""
    return STREAM_PATH_PREFIX + quote(check_stream_id(stream_id), safe="")
