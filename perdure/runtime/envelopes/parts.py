"""What the desk of envelopes is made of, and the rules that it goes by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from perdure.protocols.uamp_envelope.admission import FRESHNESS
from perdure.protocols.uamp_envelope.envelope import MAX_WINDOW
from perdure.protocols.uamp_envelope.stall import STALL_TIMEOUT
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.envelopes.signals import ExchangeSignals
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database

if TYPE_CHECKING:
    from perdure.runtime.envelopes.capabilities import Capabilities
    from perdure.runtime.envelopes.key_finder import KeyFinder


@dataclass(frozen=True, slots=True)
class EnvelopeRules:
    """What the door goes by.

    Attributes:
        freshness: how far an envelope's time may be from our clock.
        max_bytes: the greatest envelope, and the greatest body decompressed.
        max_window: how many deltas are sent without an ACK at most.
        stall: how long a connected consumer may leave a full window without an ACK.
        retention: how long an exchange that has ended can be read again.
        max_open: how many exchanges may be in progress at once.
        max_open_of_sender: how many of one sender; None for as many as there may be.
        rate_per_hour: how many envelopes one sender may send in an hour; None for no limit.
        proposals: who answers a proposal.
    """

    freshness: timedelta = FRESHNESS
    max_bytes: int = MAX_ENVELOPE_BYTES
    max_window: int = MAX_WINDOW
    stall: timedelta = STALL_TIMEOUT
    retention: timedelta = timedelta(days=1)
    max_open: int = 1000
    max_open_of_sender: int | None = None
    rate_per_hour: int | None = None
    proposals: Literal["person", "agent"] = "person"


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class DeskParts:
    """What the desk works with; whoever makes the parts closes them.

    Attributes:
        sessions: of the one tenant whose door it is.
        own: the agents that are served here, by their DIDs.
        keys: finds the keys of others.
        capabilities: judges a `cap_token`.
        signers: our own agents' keys.
        signals: tells that an exchange has changed, and hears that.
        rules: what the door goes by.
        clock: the time; what is decided by time is decided by this one.
    """

    sessions: Sessions
    own: OwnAgents
    keys: KeyFinder
    capabilities: Capabilities
    signers: OwnKeys
    signals: ExchangeSignals
    rules: EnvelopeRules = EnvelopeRules()
    clock: Callable[[], datetime] = utc_now

    @property
    def database(self) -> Database:
        """The store."""
        return self.sessions.database

    @property
    def tenant(self) -> str:
        """Whose door it is."""
        return self.sessions.tenant

    @property
    def streams(self) -> StreamParts:
        """What delta streams need of all this."""
        return StreamParts(
            database=self.database,
            tenant=self.tenant,
            stream=self.sessions.stream,
            signals=self.signals,
            signing=self.signers.signing,
            clock=self.clock,
            stall=self.rules.stall,
        )
