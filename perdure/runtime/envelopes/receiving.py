"""What every envelope must pass before anything of it is kept, in an order that costs a forger more than us.

Read, fresh, signed by the one who the transport says is there, for one agent of ours, verified, allowed, and of a body that
can be taken. Replay and what it answers are the store's to judge, in the transaction that keeps it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial

from perdure.protocols.uamp_envelope.admission import check_context, check_fresh, check_intent
from perdure.protocols.uamp_envelope.body import Content
from perdure.protocols.uamp_envelope.envelope import Envelope, read_envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.signature import read_signature, verify_signature
from perdure.runtime.envelopes.bodies import INTENTS, check_body
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.own_agents import OwnAgent
from perdure.runtime.envelopes.parts import DeskParts
from perdure.store.envelopes.context import known_hashes

LONG_BYTES = 16 * 1024
"""A longer envelope is read beside everybody else's requests: one of a megabyte can take a second."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An envelope that has passed.

    Attributes:
        own: the agent of ours that it is for.
        envelope: verified.
        content: its body's.
        raw: as received.
    """

    own: OwnAgent
    envelope: Envelope
    content: Content = field(repr=False)
    raw: bytes = field(repr=False)


async def admit(parts: DeskParts, data: bytes, caller: PeerCaller) -> Admitted:
    """Judge an envelope by all that needs no exchange.

    Args:
        parts: of the desk.
        data: the envelope's JSON as received.
        caller: who the transport says has sent it.

    Raises:
        UAMPError: it is refused; names the envelope where its id can be read.
    """
    rules = parts.rules
    reading = partial(read_envelope, data, max_bytes=rules.max_bytes, max_window=rules.max_window)
    envelope = await asyncio.to_thread(reading) if len(data) > LONG_BYTES else reading()
    try:
        check_fresh(envelope, parts.clock(), rules.freshness)
        token = read_signature(envelope)
        if not caller.speaks_for(envelope.sender):
            raise UAMPError(Code.UNAUTHORIZED, f"{caller.did} cannot send what is from {envelope.sender[:80]}")
        own = await _recipient(parts, envelope)
        verify_signature(envelope, await parts.keys.keys(envelope.sender, kid=token.kid))
        check_intent(envelope, INTENTS)
        await parts.capabilities.check(envelope, own.did)
        content = check_body(envelope, max_bytes=rules.max_bytes)
        await _check_context(parts, envelope)
    except UAMPError as error:
        raise (error if error.ref is not None else error.about(envelope.id_text)) from error
    return Admitted(own, envelope, content, data)


async def _recipient(parts: DeskParts, envelope: Envelope) -> OwnAgent:
    """The one agent of ours among an envelope's recipients. Raises UAMPError (4.03)."""
    found = [own for own in await parts.own.dids() if own.did in envelope.recipients]
    if not found:
        raise UAMPError(Code.UNAUTHORIZED, "the envelope is refused: it is for no agent of this server")
    if len(found) > 1:
        raise UAMPError(
            Code.UNAUTHORIZED, "the envelope is refused: it is for several agents of this server; send one for each"
        )
    return found[0]


async def _check_context(parts: DeskParts, envelope: Envelope) -> None:
    if envelope.context:
        ids = [item.id for item in envelope.context]
        check_context(envelope, await known_hashes(parts.database, parts.tenant, ids, sender=envelope.sender))
