"""A task that is an HTTP call, as data. `http_request` makes the request of it, an activity sends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from perdure.errors import InvalidInput
from perdure.uaip.keys import key_problem
from perdure.upp.json_value import JSONObject, JSONValue

Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
IN_QUERY = ("GET", "HEAD", "DELETE")
"""Where nothing is said, these send the arguments in the query; the others as a JSON body."""

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
REFERENCES = ("$arg", "$state", "$secret")
_URL = re.compile(r"https?://[^/?#{}\s@\\]+(?:/[^?#\s\\]*)?")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = ("host", "content-length", "transfer-encoding", "connection")


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One HTTP call.

    Where a value stands, a reference may stand: `{"$arg": name}` is an argument of the task, `{"$state": key}` a value
    of the shared state, `{"$secret": name}` (in headers only) a secret of the App, so that none is in a definition.

    Attributes:
        method: of HTTP.
        url: absolute, http or https; `{name}` in its path is the argument of that name, percent-encoded. The server is
            fixed: no argument can lead the call elsewhere.
        query: parameter name to value; None sends the arguments that are not in the path, if the method has no body.
        headers: name to value.
        body: JSON; None sends the arguments that are not in the path, if the method has a body.
        idempotency_header: the header that carries the action's idempotency key, for effect `idempotent`.
    """

    method: Method
    url: str
    query: JSONObject | None = None
    headers: JSONObject = field(default_factory=dict[str, JSONValue])
    body: JSONValue = None
    idempotency_header: str = "Idempotency-Key"


def check_http_call(call: HttpCall, parameters: JSONObject, what: str) -> None:
    """Refuse a call that could not be made.

    Args:
        call: the call.
        parameters: the task's schema; references to arguments must be among its properties.
        what: the task; errors begin with it.

    Raises:
        InvalidInput: the address, a header or a reference cannot be used.
    """
    if _URL.fullmatch(call.url) is None:
        raise InvalidInput(
            f"{what}: url {call.url!r:.120} must be http(s)://server/path with placeholders like {{id}} in the path "
            "only, and the query under 'query'"
        )
    properties = parameters.get("properties")
    known = list(properties) if isinstance(properties, dict) else []
    for name in PLACEHOLDER.findall(call.url):
        _check_argument(name, known, f"{what}: url")
    if re.search(r"[{}]", PLACEHOLDER.sub("", call.url)):
        raise InvalidInput(f"{what}: url {call.url!r:.120} has a brace without its other half")
    for name in (*call.headers, call.idempotency_header):
        if _HEADER.fullmatch(name) is None or name.lower() in _OURS:
            raise InvalidInput(f"{what}: header {name!r:.80} is no header that a call may set")
    for place, value in (("query", call.query), ("headers", call.headers), ("body", call.body)):
        for kind, name in references(value):
            _check_reference(kind, name, known, f"{what}: {place}")
            if kind == "$secret" and place != "headers":
                raise InvalidInput(f"{what}: {place}: secrets can stand in headers only")


def reference(value: JSONValue) -> tuple[str, JSONValue] | None:
    """Kind and name of a reference: an object of one member whose name begins with `$`; None if it is something else."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, name),) = value.items()
        return (kind, name) if kind.startswith("$") else None
    return None


def references(value: JSONValue) -> Iterator[tuple[str, JSONValue]]:
    """Every reference in a value, with its kind."""
    found = reference(value)
    if found is not None:
        yield found
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def _check_reference(kind: str, name: JSONValue, known: list[str], what: str) -> None:
    if kind not in REFERENCES:
        raise InvalidInput(f"{what}: {kind!r:.40} is no reference; there are {', '.join(REFERENCES)}")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{what}: {kind} needs a name, got {name!r:.80}")
    if kind == "$arg":
        _check_argument(name, known, what)
    elif kind == "$state" and (problem := key_problem(name)) is not None:
        raise InvalidInput(f"{what}: {problem}")


def _check_argument(name: str, known: list[str], what: str) -> None:
    if name not in known:
        raise InvalidInput(f"{what}: no parameter is named {name!r:.80}; the task has {', '.join(known) or 'none'}")
