"""What an envelope must pass besides its signature: freshness, advertised intents, and replay.

In this order: read, freshness, signature, intent, replay. Replay comes after the signature, so that a forgery
cannot use up the id of the one whom it imitates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent

FRESHNESS = timedelta(seconds=300)
"""How far `ts` may be from our clock, either way. Ids are remembered for at least twice as long."""


def check_fresh(envelope: Envelope, now: datetime, tolerance: timedelta = FRESHNESS) -> None:
    """Checks that an envelope was sent about now.

    Raises:
        UAMPError: 4.01.
    """
    if abs(envelope.sent_at - now) > tolerance:
        seconds = int(tolerance.total_seconds())
        raise _refused(Code.UNAUTHENTICATED, envelope, f"its ts is more than {seconds} s away from this agent's clock")


def check_intent(envelope: Envelope, advertised: Collection[Intent]) -> None:
    """Checks that an agent takes the intent.

    Raises:
        UAMPError: 4.03.
    """
    if envelope.intent not in advertised:
        raise _refused(Code.UNAUTHORIZED, envelope, f"this agent does not take the intent {envelope.intent}")


def check_context(envelope: Envelope, known: Mapping[UUID, str]) -> None:
    """Checks the hashes of the envelopes that an envelope refers to; one that is not known is not judged.

    Args:
        envelope: verified.
        known: `context_hash` by id, of those that are stored here.

    Raises:
        UAMPError: 4.00: the sender means another envelope than the one that was received.
    """
    for item in envelope.context:
        if known.get(item.id, item.hash) != item.hash:
            raise _refused(Code.MALFORMED, envelope, f"its context names {item.id} with the hash of another envelope")


def is_resend(envelope: Envelope, known_sha256: str | None) -> bool:
    """Whether an envelope is one that is known already, and is to be answered as it was.

    Args:
        envelope: verified.
        known_sha256: of the envelope that is remembered under (sender, id); None if none is.

    Raises:
        UAMPError: 4.22 if another envelope has used the id.
    """
    if known_sha256 not in (None, envelope.sha256):
        raise _refused(Code.CONFLICT, envelope, "its id was used by another envelope of the same sender")
    return known_sha256 is not None


def _refused(code: Code, envelope: Envelope, reason: str) -> UAMPError:
    return UAMPError(code, f"the envelope is refused: {reason}", ref=envelope.id_text)
