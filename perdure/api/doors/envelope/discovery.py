"""What other agents find out before they write: manifests, the hub, DID documents and keys. Anyone may have them.

Source: UAMP envelope 1.0, section 8; the did:web method; RFC 7517. Manifest and hub are signed: compact, or flattened for
who accepts `application/jose+json`.
"""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request
from starlette.responses import Response

from perdure.api.answers import Answer
from perdure.protocols.uamp_envelope.did_document import DID_MEDIA_TYPE
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.hub import HUB_PATH
from perdure.protocols.uamp_envelope.manifest import MANIFEST_PATH
from perdure.protocols.uamp_envelope.media_type import FLATTENED_MEDIA_TYPE, MANIFEST_MEDIA_TYPE
from perdure.protocols.uamp_envelope.signed_document import flattened
from perdure.runtime.envelopes.documents import DOCUMENT_NAME, MANIFEST_NAME, AgentDocuments
from perdure.runtime.envelopes.own_agents import AGENTS, OwnAgent
from perdure.upp.json_value import JSONObject

DID_PATH = f"/.well-known/{DOCUMENT_NAME}"
KEYS_PATH = "/.well-known/uamp-jwks.json"
HUB_MEDIA_TYPE = "application/hub+jws"

_OF_AGENT = f"/{AGENTS}/{{agent}}"
_OF_HOST = frozenset({MANIFEST_PATH, HUB_PATH, DID_PATH, KEYS_PATH})
_NAMES = (f"/{MANIFEST_NAME}", f"/{DOCUMENT_NAME}")
PATHS = _OF_HOST | {f"{_OF_AGENT}{name}" for name in _NAMES}
"""The routes, which are public all."""

_KEY_SET = "application/jwk-set+json"
_HEADERS = {"Cache-Control": "public, max-age=60", "Vary": "Accept"}

router = APIRouter(include_in_schema=False)


def serves(path: str) -> bool:
    """Whether a path is one of these."""
    return path in _OF_HOST or (path.startswith(f"/{AGENTS}/") and path.endswith(_NAMES) and path.count("/") == 3)


@router.get(MANIFEST_PATH)
async def host_manifest(request: Request) -> Response:
    """The default agent's manifest."""
    documents = _documents(request)
    return await _manifest(request, documents, await documents.own.default())


@router.get(f"{_OF_AGENT}/{MANIFEST_NAME}")
async def manifest(request: Request, agent: str) -> Response:
    """An agent's manifest."""
    documents = _documents(request)
    return await _manifest(request, documents, await documents.own.named(agent))


@router.get(DID_PATH)
async def host_document(request: Request) -> Response:
    """The default agent's DID document."""
    documents = _documents(request)
    return await _did_document(documents, await documents.own.default())


@router.get(f"{_OF_AGENT}/{DOCUMENT_NAME}")
async def document(request: Request, agent: str) -> Response:
    """An agent's DID document."""
    documents = _documents(request)
    return await _did_document(documents, await documents.own.named(agent))


@router.get(HUB_PATH)
async def hub(request: Request) -> Response:
    """The list of agents that are served here, and of those that the operator adds."""
    return _signed(request, await _documents(request).hub(), HUB_MEDIA_TYPE)


@router.get(KEYS_PATH)
async def key_set(request: Request) -> Response:
    """The keys of all agents that are served here."""
    return _json(await _documents(request).key_set(), _KEY_SET)


def _documents(request: Request) -> AgentDocuments:
    return cast(AgentDocuments, request.app.state.envelope_documents)


async def _manifest(request: Request, documents: AgentDocuments, agent: OwnAgent | None) -> Response:
    return _signed(request, await documents.manifest(_known(agent)), MANIFEST_MEDIA_TYPE)


async def _did_document(documents: AgentDocuments, agent: OwnAgent | None) -> Response:
    return _json(await documents.did_document(_known(agent)), DID_MEDIA_TYPE)


def _known(agent: OwnAgent | None) -> OwnAgent:
    if agent is None:
        raise UAMPError(Code.UNKNOWN_STREAM, "no such agent is served here")
    return agent


def _signed(request: Request, compact: str, media_type: str) -> Response:
    named = [item.partition(";")[0].strip().lower() for item in request.headers.get("accept", "").split(",")]
    if FLATTENED_MEDIA_TYPE in named and media_type not in named:
        return _json(flattened(compact), FLATTENED_MEDIA_TYPE)
    return Response(compact, media_type=media_type, headers=_HEADERS)


def _json(value: JSONObject, media_type: str) -> Response:
    return Answer(value, media_type=media_type, headers=_HEADERS)
