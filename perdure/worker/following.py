"""What a worker needs to follow asks of agents elsewhere, by its settings."""

from __future__ import annotations

from temporalio.client import Client

from perdure.config import Settings
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.envelopes.key_finder import KeyFinder
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.envelopes.parts import utc_now
from perdure.runtime.envelopes.remote_follower import RemoteFollower
from perdure.runtime.envelopes.remote_parts import RemoteParts
from perdure.runtime.outbound import trusting
from perdure.store.database import Database
from perdure.store.events import Announcer


def follower_of(settings: Settings, client: Client, database: Database, announcer: Announcer) -> RemoteFollower:
    """The follower of a worker. Its agents are known by the name of the API, which publishes their keys.

    Args:
        settings: of the process.
        client: Temporal's.
        database: the store.
        announcer: tells viewers of new events.

    Raises:
        InvalidInput: a file that the settings name cannot be used, or the host's name cannot be one.
    """
    own = OwnAgents(database, settings.tenant, settings.uamp_host or f"localhost:{settings.api_port}")
    signers = OwnKeys(database, settings.tenant, clock=utc_now)
    keys = KeyFinder(
        configured=ConfiguredKeys(settings.uamp_keys, "PERDURE_UAMP_KEYS"),
        resolver=DIDResolver(
            trust=trusting(settings.uamp_trust, "PERDURE_UAMP_TRUST"), allow_private=settings.uamp_allow_private
        ),
        own=own,
        signers=signers,
        clock=utc_now,
    )
    return RemoteFollower(
        RemoteParts(
            database=database,
            client=client,
            announcer=announcer,
            tenant=settings.tenant,
            own=own,
            signers=signers,
            keys=keys,
            credentials=settings.uamp_credentials,
            trust=settings.uamp_trust,
        )
    )
