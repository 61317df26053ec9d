"""How a provider is reached: key, address, time limit, headers, retries. Source: UPP-1.2, ProviderConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from perdure.errors import InvalidInput
from perdure.upp.keys import APIKey
from perdure.upp.retry import RetryStrategy
from perdure.upp.secrets import Secret

V = TypeVar("V")

DEFAULT_TIMEOUT = timedelta(seconds=120)
DEFAULT_RETRY_AFTER_MAX = timedelta(hours=1)


class Transport(Protocol):
    """What sends HTTP requests, UPP's `fetch`; every `httpx.AsyncBaseTransport` is one."""

    async def handle_async_request(self, request: Any, /) -> Any:
        """Sends a request and returns the response."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """What one application tells a provider's adapter. Nothing of it is ever stored, logged or put into an error.

    Attributes:
        api_key: the key, a reference to it (`secret("env:...")`), a function that returns it (it may be async), or a
            KeyStrategy; asked at each request. By default the provider's environment variable.
        base_url: where the provider is, with or without the endpoint's path. HTTP clients log addresses, so a key
            belongs into `api_key` or `headers`, not behind a question mark.
        timeout: longest wait for the connection and for each next bytes of an answer; of an answer that is not
            streamed, for the whole. By default two minutes.
        transport: sends the requests in place of the shared HTTP client.
        api_version: the vendor's version header, where it has one.
        retry: what to try again, and when; by default nothing in process. A durable run has its own default.
        headers: sent with each request; they win over the adapter's own. A value may be a reference to a secret.
        retry_after_max: the longest wait that a server may ask for; by default one hour.

    Raises:
        InvalidInput: the address is no http or https URL or holds a password, or a duration is not above zero.
    """

    api_key: APIKey | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)
    timeout: timedelta | None = None
    transport: Transport | None = None
    api_version: str | None = None
    retry: RetryStrategy | None = None
    headers: Mapping[str, str] | Mapping[str, str | Secret] | None = field(default=None, repr=False)
    retry_after_max: timedelta | None = None

    def __post_init__(self) -> None:
        if self.base_url is not None:
            _check_url(self.base_url)
        for name in ("timeout", "retry_after_max"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, timedelta) or value <= timedelta(0)):
                raise InvalidInput(f"{name} is {value!r}; it must be a timedelta above zero")

    def over(self, below: ProviderConfig | None) -> ProviderConfig:
        """Returns both configurations in one: what is given here wins, headers are joined by name."""
        if below is None:
            return self
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        both = {name: getattr(below, name) if value is None else value for name, value in given.items()}
        both["headers"] = join_headers(below.headers or {}, self.headers or {})
        return ProviderConfig(**both)


def join_headers(*headers: Mapping[str, V]) -> dict[str, V]:
    """Returns all headers; a later one takes the place of an earlier one of the same name, in whatever case."""
    joined: dict[str, tuple[str, V]] = {}
    for group in headers:
        joined.update({name.lower(): (name, value) for name, value in group.items()})
    return dict(joined.values())


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable, parts = False, None
    if not usable or parts is None:
        raise InvalidInput("base_url must be an address such as https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("base_url must not hold a name or password; give them as headers or api_key")
