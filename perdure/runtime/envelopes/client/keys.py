"""The keys of the agents that a client asks: out of a file, else out of their DID documents. No database is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from perdure.errors import InvalidInput, ServerUnavailable
from perdure.protocols.uamp_envelope.did_web import is_web_did
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.keys import VerificationKey
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.outbound import trusting
from perdure.upp.timestamp import now

_FRESH = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class _Read:
    """A DID document's keys, and when they were read."""

    keys: tuple[VerificationKey, ...]
    at: datetime


class AgentKeys:
    """Finds the keys of agents, and remembers those of DID documents for five minutes."""

    def __init__(
        self,
        *,
        file: Path | None = None,
        trust: Path | None = None,
        allow_private: bool = False,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """Fetch nothing yet.

        Args:
            file: JSON with keys that stand in the place of DID documents, {"DID": {"keys": [JWK, ...]}}.
            trust: a PEM file with authorities of the servers' certificates besides the usual ones.
            allow_private: fetch DID documents from this machine and private networks too.
            clock: the time.

        Raises:
            InvalidInput: a file cannot be read.
        """
        self._configured = ConfiguredKeys(file, "the file of keys")
        context = trusting(trust, "the authorities to trust")
        self._resolver = DIDResolver(trust=context, allow_private=allow_private)
        self._clock = clock
        self._read: dict[str, _Read] = {}

    async def keys(self, did: str, *, kid: str | None = None) -> Sequence[VerificationKey]:
        """The keys that may sign for a DID; see `PeerKeys`."""
        if configured := await self._configured.of(did):
            return configured
        if not is_web_did(did):
            raise UAMPError(Code.UNAUTHENTICATED, f"no keys are known of {did[:80]}; only did:web is looked up")
        known = self._read.get(did)
        is_fresh = known is not None and self._clock() - known.at < _FRESH
        if known is not None and is_fresh and (kid is None or any(key.kid == kid for key in known.keys)):
            return known.keys
        try:
            document = await self._resolver.resolve(did)
        except InvalidInput as error:
            raise UAMPError(Code.UNAUTHENTICATED, f"the keys of {did[:80]} cannot be had: {error}") from error
        except ServerUnavailable as error:
            raise UAMPError(Code.BUSY, f"the keys of {did[:80]} cannot be had now: {error}") from error
        self._read[did] = _Read(document.keys, self._clock())
        return document.keys
