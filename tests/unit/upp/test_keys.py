"""Where a key comes from, and how it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from perdure.errors import InvalidInput
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.keys import (
    APIKey,
    DynamicKey,
    KeyStrategy,
    RoundRobinKeys,
    WeightedKeys,
    mask_api_key,
    require_key,
    resolve_key,
)

VARIABLES = ("ACME_API_KEY", "ACME_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def called(key: str) -> APIKey:
    return lambda: key


def rotated(key: str) -> APIKey:
    return RoundRobinKeys([key])


async def soon() -> str:
    return "later"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("plain", "plain"),
        (lambda: "called", "called"),
        (soon, "later"),
        (RoundRobinKeys(["one"]), "one"),
        (WeightedKeys({"two": 1}), "two"),
        (DynamicKey(lambda: "three"), "three"),
        (DynamicKey(soon), "later"),
    ],
)
async def test_a_key_may_be_given_in_many_ways(given: APIKey, key: str) -> None:
    assert await resolve_key(given, VARIABLES, "acme") == key


async def test_a_given_key_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "from-environment")
    assert await resolve_key("given", VARIABLES, "acme") == "given"
    assert await resolve_key(None, VARIABLES, "acme") == "from-environment"


async def test_the_first_variable_that_is_set_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "")
    monkeypatch.setenv("ACME_KEY", "second")
    assert await resolve_key(None, VARIABLES, "acme") == "second"
    monkeypatch.setenv("ACME_API_KEY", "first")
    assert await resolve_key(None, VARIABLES, "acme") == "first"


async def test_no_key_is_none_or_an_error_that_says_where_it_belongs() -> None:
    assert await resolve_key(None, VARIABLES, "acme") is None
    with pytest.raises(UPPError, match=r"set ACME_API_KEY or ACME_KEY, or give ProviderConfig\(api_key") as caught:
        await require_key(None, VARIABLES, "acme")
    assert (caught.value.code, caught.value.provider) == (ErrorCode.AUTHENTICATION_FAILED, "acme")


async def test_a_required_key_is_returned() -> None:
    assert await require_key("given", VARIABLES, "acme") == "given"


@pytest.mark.parametrize("key", ["sk-canary\n", "sk-canary\r\nX: 1", '"sk canary"', "sk-cänary", "sk-canary\0", ""])
@pytest.mark.parametrize("way", [str, called, rotated])
async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(
    key: str, way: Callable[[str], APIKey]
) -> None:
    with pytest.raises(UPPError, match="printable ASCII") as caught:
        await resolve_key(way(key), VARIABLES, "acme")
    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert "nary" not in str(caught.value)


async def test_a_variable_with_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "sk-canary\n")
    with pytest.raises(UPPError, match="line break"):
        await resolve_key(None, VARIABLES, "acme")


async def test_a_function_that_returns_no_text_is_refused() -> None:
    def get_key() -> str:
        return None  # type: ignore[return-value]

    with pytest.raises(UPPError, match="printable ASCII"):
        await resolve_key(get_key, VARIABLES, "acme")


async def test_what_a_secret_manager_raises_is_not_shown() -> None:
    def get_key() -> str:
        raise RuntimeError("cannot decrypt sk-canary")

    with pytest.raises(UPPError, match="RuntimeError") as caught:
        await resolve_key(get_key, VARIABLES, "acme")
    assert caught.value.code == ErrorCode.AUTHENTICATION_FAILED
    assert "canary" not in str(caught.value)
    assert caught.value.cause is None
    assert caught.value.__suppress_context__


async def test_a_upp_error_of_a_secret_manager_is_kept() -> None:
    def get_key() -> str:
        raise UPPError("busy", ErrorCode.RATE_LIMITED)

    with pytest.raises(UPPError, match="RATE_LIMITED"):
        await resolve_key(get_key, VARIABLES, "acme")


def test_round_robin_keys_come_in_turn() -> None:
    keys = RoundRobinKeys(["a", "b", "c"])
    assert [keys.get_key() for _ in range(7)] == ["a", "b", "c", "a", "b", "c", "a"]


def test_weighted_keys_come_by_their_weight() -> None:
    keys = WeightedKeys({"a": 3, "b": 1, "never": 0})
    drawn = Counter(keys.get_key() for _ in range(4000))
    assert set(drawn) == {"a", "b"}
    assert 2700 < drawn["a"] < 3300


def test_a_dynamic_key_is_asked_each_time() -> None:
    given = iter(["a", "b"])
    keys = DynamicKey(lambda: next(given))
    assert [keys.get_key(), keys.get_key()] == ["a", "b"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RoundRobinKeys([]),
        lambda: WeightedKeys({}),
        lambda: WeightedKeys({"a": 0}),
        lambda: WeightedKeys({"a": -1, "b": 5}),
        lambda: WeightedKeys({"a": float("nan")}),
        lambda: WeightedKeys({"a": float("inf")}),
    ],
)
def test_a_strategy_without_a_usable_key_is_refused(make: Callable[[], KeyStrategy]) -> None:
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize("keys", [RoundRobinKeys(["sk-canary"]), WeightedKeys({"sk-canary": 1})])
def test_a_strategy_does_not_show_its_keys(keys: KeyStrategy) -> None:
    assert "canary" not in repr(keys)


@pytest.mark.parametrize(
    ("key", "masked"),
    [("", "***"), ("12345678", "***"), ("123456789", "1234...6789"), ("sk-1234567890", "sk-1...7890")],
)
def test_a_masked_key_shows_its_ends_only(key: str, masked: str) -> None:
    assert mask_api_key(key) == masked
