"""The request of a task that is an HTTP call, ready to be sent. Sending it is an activity's part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, urlencode

from perdure.errors import InvalidInput
from perdure.uaip.http_call import IN_QUERY, PLACEHOLDER, HttpCall, reference
from perdure.upp.json_value import JSONObject, JSONValue, dumps, well_formed


class _Absent(Enum):
    """Stands for an argument that was not given."""

    ABSENT = "absent"


_HEADER_TEXT = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent.

    Attributes:
        url: with the query.
        body: JSON bytes; None for no body.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None


def make_request(
    call: HttpCall,
    arguments: JSONObject,
    state: Mapping[str, JSONValue],
    *,
    secret: Callable[[str], str],
    idempotency_key: str | None = None,
) -> HttpRequest:
    """Returns the request of one call.

    An argument that is absent is left out where it is referred to; an absent key of the state is an error.

    Args:
        call: as the session's definition has it.
        arguments: checked, with defaults.
        state: the session's values.
        secret: the value of a secret of the App, by name; what it raises comes through.
        idempotency_key: sent for effect `idempotent`.

    Raises:
        InvalidInput: a value cannot stand where it is to, or is absent; no secret is in the message.
    """
    fill = _Fill(arguments, state, secret)
    used = PLACEHOLDER.findall(call.url)
    rest: JSONObject = {name: value for name, value in arguments.items() if name not in used}
    url = PLACEHOLDER.sub(lambda found: _segment(found[1], arguments.get(found[1])), call.url)
    query = rest if call.query is None and call.method in IN_QUERY else fill.members(call.query or {})
    headers = {name: _header(name, value) for name, value in fill.members(call.headers).items() if value is not None}
    if idempotency_key is not None:
        headers[call.idempotency_header] = _header(call.idempotency_header, idempotency_key)
    filled = rest if call.body is None and call.method not in IN_QUERY else fill.value(call.body)
    body = None if isinstance(filled, _Absent) else filled
    pairs = [pair for name, value in query.items() for pair in _parameters(name, value)]
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return HttpRequest(
        call.method,
        f"{url}?{urlencode(pairs)}" if pairs else url,
        headers,
        None if body is None else dumps(well_formed(body)),
    )


@dataclass(frozen=True, slots=True)
class _Fill:
    """Puts values where references stand."""

    arguments: JSONObject
    state: Mapping[str, JSONValue]
    secret: Callable[[str], str]

    def value(self, value: JSONValue) -> JSONValue | _Absent:
        found = reference(value)
        if found is not None:
            return self._look_up(found[0], str(found[1]))
        if isinstance(value, dict):
            return self.members(value)
        if isinstance(value, list):
            return [item for item in map(self.value, value) if not isinstance(item, _Absent)]
        return value

    def members(self, value: JSONObject) -> JSONObject:
        filled = ((name, self.value(item)) for name, item in value.items())
        return {name: item for name, item in filled if not isinstance(item, _Absent)}

    def _look_up(self, kind: str, name: str) -> JSONValue | _Absent:
        if kind == "$arg":
            return self.arguments.get(name, _Absent.ABSENT)
        if kind == "$secret":
            return self.secret(name)
        if name not in self.state:
            raise InvalidInput(f"the HTTP call needs {name!r}, and the state has no key of that name")
        return self.state[name]


def _segment(name: str, value: JSONValue) -> str:
    """A value as one segment of a path: it can lead neither up nor on."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(f"{name}: the address needs a text or a number, got {value!r:.80}")
    text = str(well_formed(str(value)))
    if text in ("", ".", ".."):
        raise InvalidInput(f"{name}: {text!r} cannot stand in an address")
    return quote(text, safe="")


def _parameters(name: str, value: JSONValue) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, list):
        return [pair for item in value for pair in _parameters(name, item)]
    if isinstance(value, dict):
        raise InvalidInput(f"{name}: an object cannot stand in a query; send it in the body")
    return [(name, _text(value))]


def _text(value: JSONValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(well_formed(str(value)))


def _header(name: str, value: JSONValue) -> str:
    if isinstance(value, dict | list):
        raise InvalidInput(f"header {name}: it needs a text or a number")
    text = _text(value)
    if _HEADER_TEXT.fullmatch(text) is None:
        raise InvalidInput(f"header {name}: its value has characters that no header can carry")
    return text
