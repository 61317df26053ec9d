"""What media may be called: its type and its file's name, wherever they come from."""

from __future__ import annotations

import re

from perdure.errors import InvalidInput

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w!#$&^.+-]{0,126}/[A-Za-z0-9][\w!#$&^.+-]{0,126}(;[ \t]*[\w.-]+=[\w.\"-]+)*")
_LONGEST = 255


def checked_media_type(media_type: str) -> str:
    """A media type in lower case. Raises InvalidInput if it cannot be one."""
    if len(media_type) > _LONGEST or not media_type.isascii() or _MEDIA_TYPE.fullmatch(media_type) is None:
        raise InvalidInput(f"a media type must be like image/png, not {media_type[:80]!r}")
    return media_type.lower()


def checked_filename(filename: str | None) -> str | None:
    """A file's name, or None for none. Raises InvalidInput if it cannot be one."""
    if filename is None:
        return None
    if not 0 < len(filename) <= _LONGEST or not filename.isprintable() or "/" in filename or "\\" in filename:
        raise InvalidInput(f"a file name must be 1 to {_LONGEST} printable characters without slashes")
    return filename
