"""The client of UAMP's envelope: ask the agents of other servers, by signed messages and streams.

from perdure.uamp_envelope_client import EnvelopeClient, read_identity
"""

from __future__ import annotations

from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.runtime.envelopes.client.answer import Answer, AnswerCollector, Decision, Medium
from perdure.runtime.envelopes.client.client import EnvelopeClient
from perdure.runtime.envelopes.client.connection import Binding, PeerKeys, Sent
from perdure.runtime.envelopes.client.consumer import Consumer
from perdure.runtime.envelopes.client.directory import Directory, HubView, Listed, Manifest
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError, UntrustedServer
from perdure.runtime.envelopes.client.identity import Identity, new_identity, read_identity, write_identity
from perdure.runtime.envelopes.client.keys import AgentKeys
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.client.tls import ClientCertificate

__all__ = [
    "AgentKeys",
    "Answer",
    "AnswerCollector",
    "Binding",
    "ClientCertificate",
    "ConnectionBroken",
    "Consumer",
    "Decision",
    "Delta",
    "DeltaType",
    "Directory",
    "EnvelopeClient",
    "HubView",
    "Identity",
    "Intent",
    "Listed",
    "Manifest",
    "Medium",
    "Patience",
    "PeerKeys",
    "Sent",
    "UAMPError",
    "UnsignedError",
    "UntrustedServer",
    "new_identity",
    "read_identity",
    "write_identity",
]
