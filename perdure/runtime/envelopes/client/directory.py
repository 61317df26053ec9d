"""Other agents' manifests and hubs: fetched, and believed only once the signature of their own host's DID verifies.

What a hub lists leads anywhere, so addresses that are not public are refused there, as are circles, depth and number.
Source: UAMP envelope 1.0, section 8.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from typing import Literal

from perdure.errors import InvalidInput, ServerUnavailable
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.hub import HUB_PATH, Child, TrustAnchor, check_child, may_follow, read_hub
from perdure.protocols.uamp_envelope.manifest import MANIFEST_PATH, read_manifest
from perdure.protocols.uamp_envelope.signed_document import (
    MAX_DOCUMENT_BYTES,
    SignedDocument,
    read_document,
    verify_document,
)
from perdure.runtime.envelopes.client.connection import PeerKeys
from perdure.runtime.outbound import check_url, fetch, is_loopback_name
from perdure.upp.json_value import JSONObject

MAX_FETCHED = 256

_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest whose signature has verified.

    Attributes:
        did: the agent, who has signed it.
        url: where it was.
        sha256: of the signed bytes.
        value: what it says.
    """

    did: str
    url: str
    sha256: str
    value: JSONObject


@dataclass(frozen=True, slots=True)
class Listed:
    """What became of an agent or hub that a hub lists.

    Attributes:
        child: as it is listed.
        depth: 0 for the first hub's, 1 for those of a hub that it lists, and so on.
        kind: what is there: a manifest or a further hub; None if it could not be had.
        manifest: the agent's.
        fault: why there is neither.
    """

    child: Child
    depth: int
    kind: Literal["manifest", "hub"] | None
    manifest: Manifest | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class HubView:
    """A hub, and what is below it.

    Attributes:
        did: the host that has signed it.
        url: where it was.
        anchors: what it trusts.
        listed: its children, each followed by those of its own if it is a hub.
    """

    did: str
    url: str
    anchors: tuple[TrustAnchor, ...]
    listed: tuple[Listed, ...]


@dataclass(slots=True)
class _Walk:
    """How far one walk has got."""

    seen: set[str] = field(default_factory=set[str])
    found: list[Listed] = field(default_factory=list[Listed])


class Directory:
    """Reads manifests and hubs."""

    def __init__(
        self,
        keys: PeerKeys,
        *,
        trust: ssl.SSLContext | None = None,
        allow_private: bool = False,
        max_fetched: int = MAX_FETCHED,
    ) -> None:
        """Fetch nothing yet.

        Args:
            keys: finds the keys of those who sign.
            trust: judges the servers' certificates; None for the usual authorities.
            allow_private: follow what a hub lists to this machine and private networks too.
            max_fetched: documents that one walk through hubs fetches.
        """
        self._keys = keys
        self._trust = trust
        self._allow_private = allow_private
        self._max_fetched = max_fetched

    async def manifest(self, server: str, path: str = MANIFEST_PATH) -> Manifest:
        """The manifest of an agent.

        Args:
            server: https://HOST or https://HOST:PORT.
            path: where it is there.

        Raises:
            InvalidInput: it is no such URL.
            ServerUnavailable: it cannot be fetched.
            UAMPError: 4.03 if its signer is of another host, 4.01 if the signature does not verify, 4.00 if it is none.
        """
        url = f"{server.rstrip('/')}{path}"
        return await self._verified_manifest(url, *await self._fetched(url, is_asked_for=True))

    async def hub(self, server: str) -> HubView:
        """A hub and all below it. A child that cannot be had, or is not what is listed, is told of and passed over.

        Raises:
            InvalidInput: it is no such URL.
            ServerUnavailable: it cannot be fetched.
            UAMPError: as `manifest` says, of the hub itself.
        """
        url = f"{server.rstrip('/')}{HUB_PATH}"
        data, host = await self._fetched(url, is_asked_for=True)
        signed = read_document(data, "hub+jws", fetched_from=host)
        hub = read_hub(await self._verified(signed))
        walk = _Walk({url})
        for child in hub.children:
            await self._follow(child, [url], walk)
        return HubView(signed.did, url, hub.anchors, tuple(walk.found))

    async def _follow(self, child: Child, trail: list[str], walk: _Walk) -> None:
        listed = Listed(child, len(trail) - 1, None)
        if child.url in trail:
            walk.found.append(replace(listed, fault="it leads back to a hub that led here"))
        elif child.url in walk.seen:
            walk.found.append(replace(listed, fault="it is listed twice"))
        elif len(walk.seen) >= self._max_fetched:
            walk.found.append(replace(listed, fault=f"not fetched: more than {self._max_fetched} are listed"))
        else:
            walk.seen.add(child.url)
            try:
                await self._read_child(listed, trail, walk)
            except (InvalidInput, ServerUnavailable, UAMPError) as error:
                walk.found.append(replace(listed, fault=str(error)))

    async def _read_child(self, listed: Listed, trail: list[str], walk: _Walk) -> None:
        child = listed.child
        data, host = await self._fetched(child.url, is_asked_for=False)
        below = _as_hub(data, host)
        if below is None:
            manifest = await self._verified_manifest(child.url, data, host, listed_as=child)
            walk.found.append(replace(listed, kind="manifest", manifest=manifest))
            return
        check_child(child, below)
        hub = read_hub(await self._verified(below))
        if not may_follow(trail, child.url):
            walk.found.append(replace(listed, kind="hub", fault="not followed: it is too deep"))
            return
        walk.found.append(replace(listed, kind="hub"))
        for inner in hub.children:
            await self._follow(inner, [*trail, child.url], walk)

    async def _fetched(self, url: str, *, is_asked_for: bool) -> tuple[bytes, str]:
        """A document, and the authority that it is from."""
        parsed = check_url(url, "the address of a signed document")
        if parsed.scheme != "https":
            raise InvalidInput(f"{url[:200]} must begin with https://")
        may_be_private = is_asked_for or self._allow_private
        if is_loopback_name(parsed.host) and not may_be_private:
            raise InvalidInput(f"{parsed.host} is this machine, where a hub may not lead")
        data = await fetch(parsed, max_bytes=MAX_DOCUMENT_BYTES, allow_private=may_be_private, trust=self._trust)
        is_usual = parsed.port in (None, _HTTPS_PORT)
        return data, parsed.host if is_usual else f"{parsed.host}:{parsed.port}"

    async def _verified_manifest(self, url: str, data: bytes, host: str, *, listed_as: Child | None = None) -> Manifest:
        signed = read_manifest(data, fetched_from=host)
        if listed_as is not None:
            check_child(listed_as, signed)
        return Manifest(signed.did, url, signed.sha256, await self._verified(signed))

    async def _verified(self, signed: SignedDocument) -> JSONObject:
        return verify_document(signed, await self._keys.keys(signed.did, kid=signed.kid))


def _as_hub(data: bytes, host: str) -> SignedDocument | None:
    """A document that says it is a hub; None for any other."""
    try:
        signed = read_document(data, "hub+jws", fetched_from=host)
    except UAMPError:
        return None
    return signed if "manifests" in signed.value else None
