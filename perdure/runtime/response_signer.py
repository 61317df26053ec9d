"""Signs responses where they are told, with the deployment's key. Source: UAMP 1.0, section 6.7."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from perdure.protocols.uamp_events.content_items import ContentItem
from perdure.protocols.uamp_events.server_events import ResponseDone
from perdure.protocols.uamp_events.signature_claims import signature_claims
from perdure.protocols.uamp_events.signing_key import SigningKey, key_set
from perdure.runtime.signing_keys import ReadsKeys
from perdure.uap.ids import derive_id
from perdure.upp.json_value import JSONObject

FRESH_S = 30.0
"""Seconds for which keys that were read are used."""


class ResponseSigner:
    """One of a process. Whoever tells a response once more, in whatever process, gives it the same signature."""

    def __init__(self, read: ReadsKeys, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet.

        Args:
            read: gives the keys.
            clock: seconds.
        """
        self._read = read
        self._clock = clock
        self._keys: list[SigningKey] = []
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    async def sign(
        self,
        output: Sequence[ContentItem],
        *,
        response_id: str,
        request: str,
        issuer: str,
        audience: str | None,
        issued_at: int,
    ) -> str | None:
        """The signature of a response: an RS256 JWT; None if the deployment has no key.

        Args:
            output: of the response.
            response_id: its id, from which the token's follows.
            request: the `request_hash` of what was responded to.
            issuer: the agent's id.
            audience: who asked; None if nobody knows.
            issued_at: when the response ended, seconds since the epoch.
        """
        keys = await self._fresh()
        if not keys:
            return None
        claims = signature_claims(
            output,
            request=request,
            issuer=issuer,
            audience=audience,
            issued_at=issued_at,
            token_id=derive_id("uamp", "signature", response_id),
        )
        return keys[0].sign(claims)

    async def signed(self, event: ResponseDone, *, request: str, issuer: str, audience: str | None) -> ResponseDone:
        """A response.done with its signature; as it is if the deployment has no key. See `sign`."""
        signature = await self.sign(
            event.response.output,
            response_id=event.response_id,
            request=request,
            issuer=issuer,
            audience=audience,
            issued_at=int((event.timestamp or 0) // 1000),
        )
        return event.model_copy(update={"signature": signature})

    async def key_set(self) -> JSONObject:
        """The JSON Web Key Set with which anybody verifies."""
        return key_set(await self._fresh())

    async def _fresh(self) -> list[SigningKey]:
        async with self._lock:
            if self._read_at is None or self._clock() - self._read_at >= FRESH_S:
                self._keys = await self._read()
                self._read_at = self._clock()
            return self._keys
