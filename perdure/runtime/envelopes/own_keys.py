"""The keys of our own agents: made when they are first needed, followed by others at an operator's word, and published."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from perdure.protocols.uamp_envelope.jws import decode_part
from perdure.protocols.uamp_envelope.keys import SigningKey, VerificationKey, generate_key, signing_key
from perdure.store.database import Database
from perdure.store.envelope_keys import EnvelopeKeyRow, add_envelope_key, read_envelope_keys

PUBLISHED_BEFORE = timedelta(minutes=2)
"""For so long a new key is only published, if another can sign: who reads the DID document meanwhile knows both."""

_ID_CHARS = 8


class OwnKeys:
    """The keys of a tenant's agents."""

    def __init__(self, database: Database, tenant: str, *, clock: Callable[[], datetime]) -> None:
        """Read nothing yet.

        Args:
            database: keeps them.
            tenant: whose agents they are of.
            clock: the time.
        """
        self._database = database
        self._tenant = tenant
        self._clock = clock

    async def signing(self, did: str) -> SigningKey:
        """The key that signs for an agent of ours now."""
        rows = await self._rows(did)
        return await asyncio.to_thread(_opened, signing_first(rows, self._clock())[0])

    async def public(self, did: str) -> list[VerificationKey]:
        """All that verify what an agent of ours has signed, the one that signs now first."""
        rows = signing_first(await self._rows(did), self._clock())
        return await asyncio.to_thread(lambda: [_opened(row).public() for row in rows])

    async def rotate(self, did: str) -> list[EnvelopeKeyRow]:
        """Make a key that follows the present one; all there are then, newest first."""
        return await self._keep_new(did, only_first=False)

    async def _rows(self, did: str) -> list[EnvelopeKeyRow]:
        rows = await read_envelope_keys(self._database, self._tenant, did)
        if not any(row.retired_at is None for row in rows):
            rows = await self._keep_new(did, only_first=True)
        return rows

    async def _keep_new(self, did: str, *, only_first: bool) -> list[EnvelopeKeyRow]:
        made = await asyncio.to_thread(_new_row, did, self._clock())
        return await add_envelope_key(self._database, self._tenant, made, only_first=only_first)


def signing_first(rows: Sequence[EnvelopeKeyRow], now: datetime) -> list[EnvelopeKeyRow]:
    """An agent's keys with the one first that signs.

    Of those not retired that is the newest that has been published for long enough, else the oldest.

    Args:
        rows: newest first; at least one is not retired.
        now: the time.
    """
    able = [row for row in rows if row.retired_at is None]
    signs = next((row for row in able if row.made_at <= now - PUBLISHED_BEFORE), able[-1])
    return [signs, *(row for row in rows if row is not signs)]


def _new_row(did: str, now: datetime) -> EnvelopeKeyRow:
    drawn = generate_key(f"{did}#new")
    ident = decode_part(drawn.key.thumbprint()).hex()[:_ID_CHARS]
    return EnvelopeKeyRow(did, ident, json.dumps(drawn.private_jwk()).encode(), now)


def _opened(row: EnvelopeKeyRow) -> SigningKey:
    return signing_key(row.kid, json.loads(row.private_key))
