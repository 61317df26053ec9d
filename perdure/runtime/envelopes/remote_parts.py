"""What it takes to ask agents of other servers in the name of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from temporalio.client import Client

from perdure.runtime.envelopes.key_finder import KeyFinder
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.envelopes.parts import utc_now
from perdure.store.database import Database
from perdure.store.events import Announcer


@dataclass(frozen=True, slots=True)
class RemoteTimes:
    """How asks are followed.

    Attributes:
        period: between two looks for asks that nobody follows.
        lease: after which an ask is another's whose process says nothing.
        beat: between two renewals of a lease, and two looks whether the answer is still wanted.
        longest_pause: before an ask is tried again, however often that failed.
        stale_after: an envelope that nobody is known to have is signed anew after this time.
    """

    period: timedelta = timedelta(milliseconds=500)
    lease: timedelta = timedelta(seconds=6)
    beat: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(seconds=30)
    stale_after: timedelta = timedelta(seconds=120)


@dataclass(frozen=True, slots=True)
class RemoteParts:
    """What asks are followed with; whoever makes the parts closes them.

    Attributes:
        database: the store.
        client: Temporal's, to wake who waits.
        announcer: tells viewers of new events.
        tenant: whose agents ask.
        own: they, by their DIDs.
        signers: their keys.
        keys: finds the keys of others.
        credentials: the file with what other servers are told who asks; None for nothing.
        trust: a PEM file with authorities of other servers' certificates besides the system's; None for these only.
        clock: the time.
        times: how they are followed.
    """

    database: Database
    client: Client
    announcer: Announcer
    tenant: str
    own: OwnAgents
    signers: OwnKeys
    keys: KeyFinder
    credentials: Path | None = None
    trust: Path | None = None
    clock: Callable[[], datetime] = utc_now
    times: RemoteTimes = RemoteTimes()
