"""What no error may show, taken out of its text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, quote, urlsplit

from perdure.upp.keys import mask_api_key

_SHORTEST_SECRET = 4
_SHORTEST_HEADER = 8
_SCHEMED = ("authorization", "proxy-authorization")


def redact(text: str, secrets: Iterable[str]) -> str:
    """Returns the text with each secret masked, also where it is escaped for a URL or for JSON.

    Keys of fewer than four characters, as local servers are given, are no secrets and stay.
    """
    written = {form: secret for secret in secrets if len(secret) >= _SHORTEST_SECRET for form in _forms(secret)}
    for form in sorted(written, key=len, reverse=True):  # a secret may be part of another
        text = text.replace(form, mask_api_key(written[form]))
    return text


def secrets_of(keys: Sequence[str], headers: Mapping[str, str] | None, url: str) -> list[str]:
    """Returns the keys, and values that are as long as a key: of headers, without their scheme too, and of a query."""
    found = [*keys, *(value for _, value in parse_qsl(urlsplit(url).query))]
    for name, value in (headers or {}).items():
        found.append(value)
        if name.lower() in _SCHEMED:
            found.append(value.partition(" ")[2].strip())
    return [*keys, *(value for value in found[len(keys) :] if len(value) >= _SHORTEST_HEADER)]


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield json.dumps(secret)[1:-1]
