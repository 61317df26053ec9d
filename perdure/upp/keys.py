"""Where a provider's API key comes from, and how it is shown to people: masked.

Source: UPP-1.2, key strategies.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from perdure.errors import InvalidInput
from perdure.upp.chance import CHANCE
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.redaction import known_secrets
from perdure.upp.secrets import Secret

_SHOWN = 4
_TOO_SHORT_TO_SHOW = 8

GetKey: TypeAlias = Callable[[], "str | Awaitable[str]"]


@runtime_checkable
class KeyStrategy(Protocol):
    """Gives the key of each request, so that several keys share the load."""

    def get_key(self) -> str | Awaitable[str]:
        """Returns the key of the next request."""
        ...


class RoundRobinKeys:
    """The keys in turn, one per model call.

    Raises:
        InvalidInput: there are no keys.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = _not_empty(list(keys))
        self._next = 0

    def get_key(self) -> str:
        """Returns the next key; after the last comes the first."""
        key = self._keys[self._next % len(self._keys)]
        self._next += 1
        return key


class WeightedKeys:
    """Each key as often, on average, as its share of the weights.

    Args:
        weights: by key, each finite and at least 0, and one above it.

    Raises:
        InvalidInput: there are no keys, or the weights cannot be used.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._keys = _not_empty(list(weights))
        self._weights = list(weights.values())
        if min(self._weights) < 0 or not 0 < sum(self._weights) < math.inf:
            raise InvalidInput("weights of keys must be finite and at least 0, and one of them above it")

    def get_key(self) -> str:
        """Returns a key at random, by weight."""
        return CHANCE.choices(self._keys, self._weights)[0]


class DynamicKey:
    """What a function says at each request, such as a secret manager's current key."""

    def __init__(self, get_key: GetKey) -> None:
        self._get_key = get_key

    def get_key(self) -> str | Awaitable[str]:
        """Returns what the function says now."""
        return self._get_key()


APIKey: TypeAlias = str | GetKey | KeyStrategy


async def resolve_key(given: APIKey | None, variables: Sequence[str], provider: str) -> str | None:
    """Returns the key of one request, or None if there is none anywhere.

    Args:
        given: the configuration's key, perhaps a `secret("env:...")`; it goes before the environment.
        variables: the environment variables that may hold the key, the first that is set wins.
        provider: named in errors.

    Raises:
        UPPError: AUTHENTICATION_FAILED if the key cannot be had or cannot stand in an HTTP header.
    """
    name = f"{provider}-key"
    if given is None:
        name = next((name for name in variables if os.environ.get(name)), name)
        given = os.environ.get(name)
    if given is None:
        return None
    key = await _get(given, provider)
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UPPError(
            "the API key must be printable ASCII without blanks; look for a line break or a quote copied with it",
            ErrorCode.AUTHENTICATION_FAILED,
            provider,
        )
    known_secrets.learn(name, key)
    return key


async def require_key(given: APIKey | None, variables: Sequence[str], provider: str) -> str:
    """Returns the key of one request; see `resolve_key`.

    Raises:
        UPPError: AUTHENTICATION_FAILED if there is none, too.
    """
    key = await resolve_key(given, variables, provider)
    if key is None:
        raise UPPError(
            f"no API key: set {' or '.join(variables)}, or give ProviderConfig(api_key=...)",
            ErrorCode.AUTHENTICATION_FAILED,
            provider,
        )
    return key


def mask_api_key(key: str) -> str:
    """Returns a key as people may see it: its first and last four characters, or nothing of a short one."""
    return "***" if len(key) <= _TOO_SHORT_TO_SHOW else f"{key[:_SHOWN]}...{key[-_SHOWN:]}"


async def _get(given: APIKey, provider: str) -> object:
    try:
        value = given if isinstance(given, str) else given.get_key() if isinstance(given, KeyStrategy) else given()
        return await value if inspect.isawaitable(value) else value
    except UPPError:
        raise
    except InvalidInput as error:
        if not isinstance(given, Secret):
            raise _not_had(error, provider) from None
        raise UPPError(f"no API key: {error}", ErrorCode.AUTHENTICATION_FAILED, provider) from None
    except Exception as error:  # noqa: BLE001  # anything that a secret manager raises
        raise _not_had(error, provider) from None


def _not_had(error: Exception, provider: str) -> UPPError:
    """The cause is not kept: what a secret manager writes into its errors may be the secret."""
    return UPPError(f"the API key could not be had: {type(error).__name__}", ErrorCode.AUTHENTICATION_FAILED, provider)


def _not_empty(keys: list[str]) -> list[str]:
    if not keys:
        raise InvalidInput("a key strategy needs at least one key")
    return keys
