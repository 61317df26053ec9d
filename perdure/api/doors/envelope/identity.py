"""Who we are at this door, by the settings: our agents, their keys, whose keys are believed, and the documents that say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.config import Settings
from perdure.runtime.envelopes.capabilities import Capabilities
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys
from perdure.runtime.envelopes.did_resolver import DIDResolver
from perdure.runtime.envelopes.documents import AgentDocuments, Terms, read_hub_file
from perdure.runtime.envelopes.key_finder import KeyFinder
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.runtime.outbound import trusting
from perdure.store.database import Database


@dataclass(frozen=True, slots=True)
class DoorIdentity:
    """Who we are.

    Attributes:
        own: our agents, by their DIDs.
        signers: their keys.
        keys: finds the keys of others.
        capabilities: judges a `cap_token`.
        documents: what we publish.
    """

    own: OwnAgents
    signers: OwnKeys
    keys: KeyFinder
    capabilities: Capabilities
    documents: AgentDocuments


def identity_of(settings: Settings, database: Database, *, port: int, clock: Callable[[], datetime]) -> DoorIdentity:
    """Who we are by the settings.

    Args:
        settings: of this process.
        database: the store.
        port: that the API listens on, for the name of this machine if the settings give none.
        clock: the time.

    Raises:
        InvalidInput: a file that they name cannot be used, or the host's name cannot be one.
    """
    own = OwnAgents(database, settings.tenant, settings.uamp_host or f"localhost:{port}")
    signers = OwnKeys(database, settings.tenant, clock=clock)
    keys = KeyFinder(
        configured=ConfiguredKeys(settings.uamp_keys, "PERDURE_UAMP_KEYS"),
        resolver=DIDResolver(
            trust=trusting(settings.uamp_trust, "PERDURE_UAMP_TRUST"), allow_private=settings.uamp_allow_private
        ),
        own=own,
        signers=signers,
        clock=clock,
    )
    capabilities = Capabilities(
        ConfiguredKeys(settings.uamp_token_issuers, "PERDURE_UAMP_TOKEN_ISSUERS"),
        base_url=own.base_url,
        is_needed=settings.uamp_needs_cap_token,
        clock=clock,
    )
    documents = AgentDocuments(
        own,
        signers,
        Terms(
            takes_certificates=settings.uamp_client_ca is not None,
            max_bytes=settings.uamp_max_envelope_bytes,
            rate_per_hour=settings.uamp_rate_per_hour,
        ),
        read_hub_file(settings.uamp_hub),
    )
    return DoorIdentity(own, signers, keys, capabilities, documents)
