"""What delta streams need of their process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.protocols.uamp_envelope.keys import SigningKey
from perdure.protocols.uamp_envelope.stall import STALL_TIMEOUT
from perdure.runtime.envelopes.signals import ExchangeSignals
from perdure.runtime.event_stream import EventStream
from perdure.store.database import Database

SILENCE = timedelta(seconds=15)
"""After so long without a frame a consumer is sent a sign of life."""


@dataclass(frozen=True, slots=True)
class StreamParts:
    """What delta streams need of their process.

    Attributes:
        database: the store.
        tenant: whose exchanges they are.
        stream: of the sessions' event logs.
        signals: news of exchanges.
        signing: the key that signs for a DID of ours.
        clock: the time; what it says decides about stalls and stands in frames.
        stall: how long a connected consumer may leave a full window without an ACK.
        silence: after how long without a frame `frames()` gives None.
    """

    database: Database
    tenant: str
    stream: EventStream
    signals: ExchangeSignals
    signing: Callable[[str], Awaitable[SigningKey]]
    clock: Callable[[], datetime]
    stall: timedelta = STALL_TIMEOUT
    silence: timedelta = SILENCE
