"""How a provider is reached."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from perdure.errors import InvalidInput
from perdure.upp.provider_config import ProviderConfig, Transport, join_headers
from perdure.upp.retry import NoRetry

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("url", ["https://h", "http://localhost:8080/v1", "http://[::1]:8080", "https://h/x?v=1"])
def test_an_address_is_an_http_url(url: str) -> None:
    assert ProviderConfig(base_url=url).base_url == url


@pytest.mark.parametrize(
    "url", ["", "h/v1", "ftp://h", "https://", "http://h:99999", "http://h:x", "http://[::1", "http://h:0"]
)
def test_another_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="base_url must be an address"):
        ProviderConfig(base_url=url)


@pytest.mark.parametrize("url", ["https://user:canary@h", "https://canary@h", "https://:canary@h"])
def test_an_address_with_a_password_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidInput, match="name or password") as caught:
        ProviderConfig(base_url=url)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", ["timeout", "retry_after_max"])
@pytest.mark.parametrize("value", [timedelta(0), -SECOND, 5, "5"])
def test_a_duration_is_above_zero(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        ProviderConfig(**{name: value})  # type: ignore[arg-type]


def test_what_is_given_wins_over_what_is_below() -> None:
    retry = NoRetry()
    above = ProviderConfig(api_key="above", timeout=SECOND)
    below = ProviderConfig(api_key="below", base_url="https://h", retry=retry, api_version="1")
    assert above.over(below) == ProviderConfig(
        api_key="above", timeout=SECOND, base_url="https://h", retry=retry, api_version="1", headers={}
    )


def test_over_nothing_it_is_itself() -> None:
    config = ProviderConfig(api_key="a")
    assert config.over(None) is config


def test_headers_are_joined_by_name_in_whatever_case() -> None:
    above = ProviderConfig(headers={"X-A": "1", "x-b": "2"})
    below = ProviderConfig(headers={"x-a": "below", "X-C": "3"})
    assert above.over(below).headers == {"X-A": "1", "X-C": "3", "x-b": "2"}


def test_the_last_of_joined_headers_wins() -> None:
    assert join_headers({"A": "1"}, {}, {"a": "2"}, {"B": "3"}) == {"a": "2", "B": "3"}


def test_it_shows_neither_key_nor_headers_nor_address() -> None:
    """An address may hold a key behind its question mark."""
    config = ProviderConfig(api_key="canary", headers={"X": "canary"}, base_url="https://h/?key=canary")
    assert "canary" not in repr(config)


def test_every_transport_of_httpx_fits() -> None:
    transport: Transport = httpx.MockTransport(lambda _: httpx.Response(200))
    assert ProviderConfig(transport=transport).transport is transport
