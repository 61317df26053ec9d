"""What we publish of our agents: manifests, the hub's list of them, DID documents, and all their keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.did_document import build_did_document
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.hub import MAX_CHILDREN, Child, Hub, TrustAnchor, build_hub, read_hub, sign_hub
from perdure.protocols.uamp_envelope.identifier import MESSAGES_PATH
from perdure.protocols.uamp_envelope.key_set import build_key_set
from perdure.protocols.uamp_envelope.manifest import MANIFEST_PATH, Auth, build_manifest, sign_manifest
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.runtime.envelopes.bodies import BODY_TYPES, INTENTS
from perdure.runtime.envelopes.own_agents import AGENTS, OwnAgent, OwnAgents
from perdure.runtime.envelopes.own_keys import OwnKeys
from perdure.upp.json_value import JSONObject, sha256_hex

DOCUMENT_NAME = "did.json"
MANIFEST_NAME = "agent-manifest.json"

_NOTHING = Hub((), ())
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Terms:
    """What the door asks of everybody, as it really does.

    Attributes:
        takes_certificates: whether a client certificate shows who somebody is; a bearer token always does.
        max_bytes: of an envelope.
        rate_per_hour: how many envelopes a sender may send in an hour; None for no limit.
    """

    takes_certificates: bool
    max_bytes: int
    rate_per_hour: int | None = None

    @property
    def auth(self) -> tuple[Auth, ...]:
        """In the manifest's words."""
        return ("oauth2", "mtls") if self.takes_certificates else ("oauth2",)


class AgentDocuments:
    """The documents of our agents, as they are now."""

    def __init__(self, own: OwnAgents, signers: OwnKeys, terms: Terms, listed: Hub = _NOTHING) -> None:
        """Build nothing yet.

        Args:
            own: the agents.
            signers: their keys.
            terms: what the door asks for.
            listed: what the hub lists besides our agents.
        """
        self.own = own
        self._signers = signers
        self._terms = terms
        self._listed = listed

    async def manifest(self, agent: OwnAgent) -> str:
        """The manifest of an agent, signed by it."""
        return sign_manifest(self._manifest(agent), await self._signers.signing(agent.did))

    async def did_document(self, agent: OwnAgent) -> JSONObject:
        """The DID document of an agent."""
        keys = await self._signers.public(agent.did)
        return build_did_document(agent.did, keys, f"{self.own.base_url}{MESSAGES_PATH}")

    async def hub(self) -> str:
        """The hub's document, signed by the host: our agents, and what the operator lists besides."""
        ours = tuple(
            Child(agent.did, self._manifest_url(agent), sha256_hex(canonical_json(self._manifest(agent))))
            for agent in await self.own.dids()
        )
        known = {child.did for child in ours}
        others = tuple(child for child in self._listed.children if child.did not in known)
        anchors = (TrustAnchor("did", self.own.host_did), *self._listed.anchors)
        hub = Hub((*ours, *others)[:MAX_CHILDREN], tuple(dict.fromkeys(anchors)))
        document = build_hub(hub, await self._signers.public(self.own.host_did))
        return sign_hub(document, await self._signers.signing(self.own.host_did))

    async def key_set(self) -> JSONObject:
        """The keys of all our agents."""
        return build_key_set([key for own in await self.own.dids() for key in await self._signers.public(own.did)])

    def _manifest(self, agent: OwnAgent) -> JSONObject:
        return build_manifest(
            description=f"{agent.agent}, an agent whose runs outlive their processes",
            intents=INTENTS,
            body_types=BODY_TYPES,
            auth=self._terms.auth,
            max_body_kib=self._terms.max_bytes // _KIB,
            rate_per_hour=self._terms.rate_per_hour,
        )

    def _manifest_url(self, agent: OwnAgent) -> str:
        if agent.is_default:
            return f"{self.own.base_url}{MANIFEST_PATH}"
        return f"{self.own.base_url}/{AGENTS}/{quote(agent.agent, safe='')}/{MANIFEST_NAME}"


def read_hub_file(file: Path | None) -> Hub:
    """What an operator has the hub list.

    Raises:
        InvalidInput: the file cannot be read, or is no hub.
    """
    if file is None:
        return _NOTHING
    try:
        return read_hub(parse_object(file.read_bytes()))
    except OSError as error:
        raise InvalidInput(f"{file} (PERDURE_UAMP_HUB) cannot be read: {error.strerror or error}") from error
    except UAMPError as error:
        raise InvalidInput(f"{file} (PERDURE_UAMP_HUB): {error.message}") from error
