"""`did:web` names: taken apart, built, and turned into the URL of their document. Fetching is not done here.

Source: the did:web method specification, 3.2. Which addresses a resolver may connect to is the resolver's to guard.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from perdure.errors import InvalidInput

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile("(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_SEGMENT = re.compile("(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})+")
_FRAGMENT = re.compile("[A-Za-z0-9._~!$&'()*+,;=:@/?%-]+")
_PREFIX = "did:web:"
_MAX_CHARS = 255
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class WebName:
    """A did:web name in its parts.

    Attributes:
        did: as it was written; names are compared as text.
        host: a host name, never an address.
        port: None for 443.
        path: segments as they stand in the URL, percent-encoded.
    """

    did: str
    host: str
    port: int | None
    path: tuple[str, ...]

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def document_url(self) -> str:
        """Where its DID document is."""
        folder = "/".join(self.path) if self.path else ".well-known"
        return f"https://{self.authority}/{folder}/did.json"


def is_web_did(did: str) -> bool:
    """Whether a name is of the method `web`, so that its keys can be found."""
    return did.startswith(_PREFIX)


def read_web_did(did: str) -> WebName:
    """Takes a did:web name apart.

    Raises:
        InvalidInput: it is no did:web name, or names an address or a path that climbs.
    """
    if not is_web_did(did) or len(did) > _MAX_CHARS:
        raise _wrong(did, "is no did:web name")
    authority, *path = did.removeprefix(_PREFIX).split(":")
    host, colon, port = authority.replace("%3a", "%3A").partition("%3A")
    _check_host(did, host)
    for segment in path:
        _check_segment(did, segment)
    return WebName(did, host, _port(did, port) if colon else None, tuple(path))


def web_did(host: str, *path: str, port: int | None = None) -> str:
    """The did:web name of a host, or of something below it.

    Args:
        host: a host name.
        path: segments in plain text, as "agents", "coder".
        port: None for 443.

    Raises:
        InvalidInput: host, port or a segment cannot stand in a did:web name.
    """
    authority = host if port is None else f"{host}%3A{port}"
    did = _PREFIX + ":".join([authority, *(quote(segment, safe="") for segment in path)])
    return read_web_did(did).did


def split_did_url(text: str) -> tuple[str, str]:
    """DID and fragment of a DID URL that names a key.

    Raises:
        InvalidInput: it has no fragment, or a path or query.
    """
    did, sharp, fragment = text.partition("#")
    if not sharp or not did.startswith("did:") or re.search("[/?]", did) or _FRAGMENT.fullmatch(fragment) is None:
        raise InvalidInput(f"{text[:80]!r} does not name a key; use a DID URL as did:web:agent.example#k1")
    return did, fragment


def _check_host(did: str, host: str) -> None:
    if _HOST.fullmatch(host) is None:
        raise _wrong(did, "has no valid host name")
    if _NUMBER.fullmatch(host.rpartition(".")[2]) is not None:
        raise _wrong(did, "names an address; did:web takes host names only")


def _check_segment(did: str, segment: str) -> None:
    plain = unquote(segment)
    if _SEGMENT.fullmatch(segment) is None or plain in (".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", plain):
        raise _wrong(did, f"has the path segment {segment[:40]!r}, which cannot stand in a URL's path")


def _port(did: str, text: str) -> int:
    if re.fullmatch("[0-9]{1,5}", text) is None or not 0 < int(text) <= _MAX_PORT:
        raise _wrong(did, "has no valid port")
    return int(text)


def _wrong(did: str, what: str) -> InvalidInput:
    return InvalidInput(f"{did[:80]!r} {what}")
