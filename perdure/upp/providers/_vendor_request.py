"""A request to a vendor, and the bytes and headers that it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from perdure.errors import InvalidInput
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, dumps, jsonable, well_formed
from perdure.upp.provider_config import DEFAULT_RETRY_AFTER_MAX, DEFAULT_TIMEOUT, ProviderConfig, join_headers
from perdure.upp.providers._errors import Classify, ErrorContext
from perdure.upp.providers._redaction import secrets_of
from perdure.upp.redaction import known_secrets
from perdure.upp.secrets import Secret

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")
_SECRET_HEADER = re.compile(r"(?i)auth|cookie|key|password|secret|signature|token")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa1-\xff]*")


@dataclass(frozen=True, slots=True)
class VendorRequest:
    """One request.

    Attributes:
        provider: the provider's name, for errors.
        url: the whole address.
        body: sent as JSON.
        headers: the adapter's own, key included; the configuration's go over them.
        config: time limits, headers, transport.
        secrets: what no error may show, such as the key.
        classify: says what a vendor's error body means beyond its status; None if nothing.
    """

    provider: str
    url: str
    body: JSONObject
    config: ProviderConfig
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    secrets: Sequence[str] = field(default=(), repr=False)
    classify: Classify | None = None

    @property
    def seconds(self) -> float:
        """The time limit."""
        return (self.config.timeout or DEFAULT_TIMEOUT).total_seconds()

    def given_headers(self) -> dict[str, str]:
        """Returns the configuration's headers, references to secrets read.

        Raises:
            UPPError: INVALID_REQUEST if a secret is not there.
        """
        try:
            return {
                name: value.get_key() if isinstance(value, Secret) else value
                for name, value in (self.config.headers or {}).items()
            }
        except InvalidInput as error:
            raise UPPError(f"a header cannot be sent: {error}", ErrorCode.INVALID_REQUEST, self.provider) from None

    def context(self) -> ErrorContext:
        """Returns what its errors need to know."""
        secrets = secrets_of(self.secrets, self.given_headers(), self.url)
        return ErrorContext(
            self.provider, secrets, self.classify, self.config.retry_after_max or DEFAULT_RETRY_AFTER_MAX
        )


def body_of(request: VendorRequest) -> bytes:
    """Returns the body as valid UTF-8.

    Raises:
        UPPError: INVALID_REQUEST, naming the path, if something in it has no JSON form.
    """
    try:
        return dumps(well_formed(request.body))
    except RecursionError:
        problem = "it is nested too deeply, or contains itself"
    except (TypeError, ValueError) as error:
        problem = _named(request.body) or str(error)
    raise UPPError(f"the request is no JSON: {problem}", ErrorCode.INVALID_REQUEST, request.provider)


def headers_of(request: VendorRequest, accept: str) -> list[tuple[bytes, bytes]]:
    """Returns the headers.

    Raises:
        UPPError: INVALID_REQUEST, naming the header and never its value, if one cannot be sent.
    """
    own = {"Accept": accept, "Content-Type": "application/json"}
    given = request.given_headers()
    for name, value in cast("Mapping[str, object]", given).items():
        if isinstance(value, str) and _SECRET_HEADER.search(name):
            known_secrets.learn(f"{request.provider}-{name.lower()}", value.rpartition(" ")[2])
    joined = join_headers(own, request.headers, given)
    return [_header(name, value, request.provider) for name, value in joined.items()]


def _header(name: str, value: object, provider: str) -> tuple[bytes, bytes]:
    sound = _HEADER_NAME.match(name)
    if not name or sound is None or sound.group() != name:
        # What stands behind an unsound character may be a value, as in "Authorization: Bearer ..." given as a name.
        problem = f"the name of a header cannot be sent: {sound.group() if sound else ''!r}..."
        raise UPPError(problem, ErrorCode.INVALID_REQUEST, provider)
    if not isinstance(value, str) or _HEADER_VALUE.fullmatch(value) is None:
        problem = f"the value of the header {name!r} cannot be sent: it must be a line of Latin-1 text"
        raise UPPError(problem, ErrorCode.INVALID_REQUEST, provider)
    return name.encode("ascii"), value.strip(" \t").encode("latin-1")


def _named(body: object) -> str | None:
    try:
        jsonable(body)
    except TypeError as error:
        return str(error)
    return None
