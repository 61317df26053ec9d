"""Finding the keys that verify what an agent has signed: configured ones, our own, or those of its DID document."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perdure.errors import InvalidInput, ServerUnavailable
from perdure.protocols.uamp_envelope.did_web import is_web_did
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.keys import VerificationKey
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys

logger = logging.getLogger(__name__)

FRESH = timedelta(minutes=5)
"""For so long a DID document counts as it was read: a key that it drops verifies for so long."""

RETRY = timedelta(seconds=10)
"""A document that could not be read, or that lacked a key which a sender names, is not fetched again before."""

_MAX_CACHED = 1000


@dataclass(slots=True)
class _Found:
    """What is known of a DID.

    Attributes:
        keys: of its document.
        refused: in the place of keys: why there are none.
        fresh_until: when all of it is read again.
        next_try_at: from when on a key that is not among them has it read again.
        lock: held by whoever reads.
    """

    keys: tuple[VerificationKey, ...] = ()
    refused: Code | None = None
    fresh_until: datetime | None = None
    next_try_at: datetime | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_fresh(self, now: datetime) -> bool:
        return self.fresh_until is not None and now < self.fresh_until

    def is_enough(self, kid: str | None, now: datetime) -> bool:
        """Whether nothing needs to be fetched to look for a key."""
        if not self.is_fresh(now):
            return False
        is_known = kid is None or self.refused is not None or any(key.kid == kid for key in self.keys)
        return is_known or (self.next_try_at is not None and now < self.next_try_at)


class KeyFinder:
    """Finds keys, and remembers those of DID documents for a while."""

    def __init__(
        self,
        *,
        configured: ConfiguredKeys,
        resolver: DIDResolver,
        own: OwnAgents,
        signers: OwnKeys,
        clock: Callable[[], datetime],
    ) -> None:
        """Fetch nothing yet.

        Args:
            configured: stand in the place of a DID document.
            resolver: fetches the documents of others.
            own: the agents of ours, whose documents need no fetching.
            signers: their keys.
            clock: the time.
        """
        self._configured = configured
        self._resolver = resolver
        self._own = own
        self._signers = signers
        self._clock = clock
        self._found: OrderedDict[str, _Found] = OrderedDict()

    async def keys(self, did: str, *, kid: str | None = None) -> list[VerificationKey]:
        """The keys of an agent that may sign. Not that the one asked for is among them: who verifies says so.

        Args:
            did: of the agent.
            kid: the key that is looked for; if it is not known, its document is fetched once more.

        Raises:
            UAMPError: 4.01 none can be found; 5.04 its server does not answer now.
        """
        configured = await self._configured.of(did)
        if configured:
            return [*configured]
        if self._own.is_of_this_host(did):
            return await self._of_ours(did)
        if not is_web_did(did):
            raise UAMPError(
                Code.UNAUTHENTICATED, f"no keys are known of {did[:80]}; only those of did:web are looked up"
            )
        found = await self._looked_up(did, kid)
        if found.refused is Code.BUSY:
            raise UAMPError(Code.BUSY, f"the DID document of {did[:80]} cannot be fetched now", retry_after=RETRY)
        if found.refused is not None:
            raise UAMPError(found.refused, f"the DID document of {did[:80]} cannot be used")
        return [*found.keys]

    async def _of_ours(self, did: str) -> list[VerificationKey]:
        if await self._own.find(did) is None:
            raise UAMPError(Code.UNAUTHENTICATED, f"no agent here is {did[:80]}")
        return await self._signers.public(did)

    async def _looked_up(self, did: str, kid: str | None) -> _Found:
        found = self._found.setdefault(did, _Found())
        self._found.move_to_end(did)
        while len(self._found) > _MAX_CACHED:
            self._found.popitem(last=False)
        if not found.is_enough(kid, self._clock()):
            async with found.lock:
                if not found.is_enough(kid, self._clock()):  # another has not just read it
                    await self._read(did, found)
        return found

    async def _read(self, did: str, found: _Found) -> None:
        """Read a document. One that is asked for again for a key's sake, and is not there, stays as it was."""
        is_again = found.is_fresh(self._clock())
        try:
            document = await self._resolver.resolve(did)
        except (InvalidInput, ServerUnavailable) as error:
            logger.warning("envelope_keys.document_refused", extra={"did": did, "reason": str(error)})
            found.next_try_at = self._clock() + RETRY
            if not is_again:
                found.keys, found.fresh_until = (), found.next_try_at
                found.refused = Code.BUSY if isinstance(error, ServerUnavailable) else Code.UNAUTHENTICATED
            return
        now = self._clock()
        found.keys, found.refused, found.fresh_until = document.keys, None, now + FRESH
        found.next_try_at = now + RETRY if is_again else None
