"""Opening the door of envelopes for as long as the app serves, and what its routes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.api.backend import Backend
from perdure.api.doors.envelope.identity import DoorIdentity, identity_of
from perdure.api.rate_limit import RateLimit
from perdure.config import Settings
from perdure.runtime.envelopes.desk import EnvelopeDesk
from perdure.runtime.envelopes.parts import DeskParts, EnvelopeRules
from perdure.runtime.envelopes.remote_follower import RemoteFollower
from perdure.runtime.envelopes.remote_parts import RemoteParts
from perdure.runtime.envelopes.signals import ExchangeSignals
from perdure.runtime.envelopes.sweep import EnvelopeSweep


@dataclass(frozen=True, slots=True)
class Door:
    """What the routes of envelopes share.

    Attributes:
        desk: takes envelopes in and opens their streams.
        parts: what it works with.
        identity: who we are.
        backend: how long streams wait, and whether the process is to end.
        rate: of each caller; None for no limit.
        takes_http1: whether envelopes are taken by HTTP/1.1 too.
    """

    desk: EnvelopeDesk
    parts: DeskParts
    identity: DoorIdentity
    backend: Backend
    rate: RateLimit | None
    takes_http1: bool


@asynccontextmanager
async def open_door(backend: Backend, settings: Settings, rate: RateLimit | None, *, port: int) -> AsyncGenerator[Door]:
    """The door, open inside the block.

    Args:
        backend: open.
        settings: of the process.
        rate: of each caller.
        port: that the API listens on, for our name if the settings give none.

    Raises:
        InvalidInput: a file that the settings name cannot be used.
    """
    identity = identity_of(settings, backend.database, port=port, clock=backend.clock)
    signals = ExchangeSignals(backend.database, settings.tenant)
    parts = DeskParts(
        sessions=backend.sessions(settings.tenant),
        own=identity.own,
        keys=identity.keys,
        capabilities=identity.capabilities,
        signers=identity.signers,
        signals=signals,
        rules=rules_of(settings),
        clock=backend.clock,
    )
    desk = EnvelopeDesk(parts)
    sweeping = asyncio.create_task(EnvelopeSweep(parts).run(), name="sweep of envelopes")
    follower = RemoteFollower(_remote_parts(backend, settings, identity))
    following = asyncio.create_task(follower.run(), name="follow asks of agents elsewhere")
    try:
        yield Door(desk, parts, identity, backend, rate, settings.uamp_allow_http1)
    finally:
        sweeping.cancel()
        following.cancel()
        await asyncio.gather(sweeping, following, return_exceptions=True)
        await signals.close()


def _remote_parts(backend: Backend, settings: Settings, identity: DoorIdentity) -> RemoteParts:
    """What asks of agents elsewhere are followed with."""
    return RemoteParts(
        database=backend.database,
        client=backend.client,
        announcer=backend.announcer,
        tenant=settings.tenant,
        own=identity.own,
        signers=identity.signers,
        keys=identity.keys,
        credentials=settings.uamp_credentials,
        trust=settings.uamp_trust,
        clock=backend.clock,
    )


def rules_of(settings: Settings) -> EnvelopeRules:
    """What the door goes by, as the settings have it."""
    return EnvelopeRules(
        freshness=settings.uamp_freshness,
        max_bytes=settings.uamp_max_envelope_bytes,
        max_window=settings.uamp_max_window,
        stall=settings.uamp_stall,
        retention=settings.uamp_stream_retention,
        max_open=settings.uamp_max_open,
        max_open_of_sender=settings.uamp_max_open_of_sender,
        rate_per_hour=settings.uamp_rate_per_hour,
        proposals=settings.uamp_proposals,
    )
