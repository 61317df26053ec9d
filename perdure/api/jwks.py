"""The keys of a token issuer, from a file or an address: kept for a while, and fetched again when a new one appears."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, OKPKey, RSAKey

from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.outbound import fetch

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024
FRESH_SECONDS = 600.0
USABLE_SECONDS = 3600.0
RETRY_SECONDS = 30.0
_MIN_RSA_BITS = 2048


class KeySource:
    """Finds a key by its id.

    Keys count as fresh for ten minutes. If they cannot be fetched then, the old ones serve for an hour in all. A key id
    that is unknown leads to a new fetch, but to no more than one each half minute: a stranger's tokens cost the issuer
    nothing.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet.

        Args:
            read: gives the JSON Web Key Set.
            clock: seconds.
        """
        self._read = read
        self._clock = clock
        self._keys: dict[str | None, Key] = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    async def key(self, kid: str | None) -> Key | None:
        """The key of that id; the only one if a token names none; None if there is no such key.

        Raises:
            ServerUnavailable: no keys could be fetched.
        """
        await self._renew(is_needed=lambda: not self._is_younger(self._read_at, FRESH_SECONDS))
        if self._find(kid) is None:
            await self._renew(is_needed=lambda: self._find(kid) is None)
        if not self._is_younger(self._read_at, USABLE_SECONDS):
            raise ServerUnavailable("the keys of the token issuer cannot be fetched; the server's log says why")
        return self._find(kid)

    def _find(self, kid: str | None) -> Key | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return None if kid is None else self._keys.get(kid)

    def _is_younger(self, at: float | None, seconds: float) -> bool:
        return at is not None and self._clock() - at < seconds

    async def _renew(self, *, is_needed: Callable[[], bool]) -> None:
        if not is_needed() or self._is_younger(self._tried_at, RETRY_SECONDS):
            return
        async with self._lock:
            if not is_needed() or self._is_younger(self._tried_at, RETRY_SECONDS):
                return  # another request has just fetched them
            try:
                self._keys = parse_keys(await self._read())
                self._read_at = self._clock()
            except (ServerUnavailable, InvalidInput, OSError) as error:
                logger.warning("jwks.fetch_failed", extra={"reason": str(error)})
            finally:
                self._tried_at = self._clock()


def keys_at(url: httpx.URL, *, allow_private: bool) -> KeySource:
    """The keys at an address."""
    return KeySource(lambda: fetch(url, max_bytes=MAX_BYTES, allow_private=allow_private))


def keys_in(file: Path) -> KeySource:
    """The keys in a file, which may change."""
    return KeySource(lambda: asyncio.to_thread(file.read_bytes))


def parse_keys(document: bytes) -> dict[str | None, Key]:
    """The keys of a JSON Web Key Set that can sign a token here, by id.

    Keys of other kinds are left out: above all symmetric ones, since what is public must not verify anything.

    Raises:
        InvalidInput: it is none, or has no such key.
    """
    try:
        parsed: Any = json.loads(document)
        listed = cast("list[Any]", parsed["keys"])
        given = [cast("dict[str, Any]", item) for item in listed if isinstance(item, dict)]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise InvalidInput("the keys of the token issuer are no JSON Web Key Set") from error
    keys: dict[str | None, Key] = {}
    for item in given:
        key = _signing_key(item)
        if key is not None:
            keys.setdefault(item.get("kid"), key)
    if not keys:
        raise InvalidInput("the JSON Web Key Set of the token issuer has no key for RS256, ES256 or EdDSA")
    return keys


def algorithms_of(key: Key) -> tuple[str, ...]:
    """The names of the one algorithm that a key is for: whoever signs does not choose it."""
    if isinstance(key, RSAKey):
        return ("RS256",)
    if isinstance(key, ECKey):
        return ("ES256",) if key.curve_name == "P-256" else ()
    if isinstance(key, OKPKey):
        return ("EdDSA", "Ed25519") if key.curve_name == "Ed25519" else ()
    return ()


def _signing_key(item: dict[str, Any]) -> Key | None:
    kid = item.get("kid")
    if item.get("use", "sig") != "sig" or not isinstance(kid, str | None):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of a short key, which is left out below
            key = JWKRegistry.import_key(
                {name: value for name, value in item.items() if name not in ("use", "key_ops")}
            )
        names = algorithms_of(key)
        if isinstance(key, RSAKey) and key.raw_value.key_size < _MIN_RSA_BITS:
            return None
    except (JoseError, ValueError, TypeError, KeyError) as error:
        logger.warning("jwks.key_left_out", extra={"reason": type(error).__name__})
        return None
    return key if names and item.get("alg", names[0]) in names else None
