"""Which agent a connection is of: a bearer token or key says so, or a client certificate. One is always needed at this door.

A token speaks for its subject, an API key for its name, a certificate for the names of its SAN. Where a connection shows both,
they must agree.
"""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

from perdure.api.authentication import Authenticator
from perdure.api.principal import Scope
from perdure.api.problems import Refused
from perdure.api.tls_server import PEER_CERTIFICATE
from perdure.api.tokens import MAX_NAME
from perdure.errors import ServerUnavailable
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.runtime.envelopes.callers import PeerCaller, caller_of_certificate

_SHOW = (
    "show who you are: Authorization: Bearer, with a token whose subject is your DID or a key that has it as its name"
)


async def peer_of(connection: HTTPConnection) -> PeerCaller:
    """Who sends a request or opens a socket.

    Raises:
        UAMPError: 4.01 it shows nothing, or nothing that is worth anything; 4.03 it is no agent, or may not send; 5.04
            that cannot be found out now.
    """
    state = connection.app.state
    headers = connection.headers.getlist("authorization")
    if len(headers) > 1:
        raise UAMPError(Code.UNAUTHENTICATED, "show one credential; there are several headers Authorization")
    certificate = cast("dict[str, object]", connection.scope.get("state") or {}).get(PEER_CERTIFICATE)
    return await peer_by(
        cast(Authenticator, state.authenticator),
        cast(str, state.envelope_tenant),
        authorization=headers[0] if headers else None,
        certificate=certificate if isinstance(certificate, bytes) else None,
    )


async def peer_by(
    authenticator: Authenticator, tenant: str, *, authorization: str | None, certificate: bytes | None
) -> PeerCaller:
    """Who shows these credentials, on whatever binding.

    Args:
        authenticator: of the app.
        tenant: whose door it is.
        authorization: the value `Bearer ...`; None if it was not sent.
        certificate: the client's, verified by the transport, in DER; None if it showed none.

    Raises:
        UAMPError: as `peer_of`.
    """
    certified = None if certificate is None else caller_of_certificate(certificate)
    if authorization is None:
        if certified is None:
            raise UAMPError(Code.UNAUTHENTICATED, _SHOW)
        return _of_certificate(certified)
    caller = await _of_bearer(authenticator, tenant, authorization)
    if certified is not None and caller.did not in certified:
        raise UAMPError(Code.UNAUTHORIZED, f"the certificate is not of {caller.did[:80]}, whom the bearer token is of")
    return caller


def _of_certificate(dids: list[str]) -> PeerCaller:
    if not dids:
        raise UAMPError(
            Code.UNAUTHORIZED, "the certificate names no agent: its SAN needs a URI that is a DID, or a host"
        )
    return PeerCaller(dids[0], dids[0], tuple(dids[1:]))


async def _of_bearer(authenticator: Authenticator, tenant: str, authorization: str) -> PeerCaller:
    scheme, _, credential = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not credential.strip() or not credential.isascii():
        raise UAMPError(Code.UNAUTHENTICATED, _SHOW)
    try:
        principal = await authenticator.principal_of(credential.strip())
    except Refused as error:
        raise UAMPError(Code.UNAUTHENTICATED, error.detail) from None
    except ServerUnavailable as error:
        raise UAMPError(Code.BUSY, "who you are cannot be found out now") from error
    is_whole = len(principal.name) < MAX_NAME  # a longer subject was cut, and may have been another's
    if principal.tenant != tenant or not principal.name.startswith("did:") or not is_whole:
        raise UAMPError(Code.UNAUTHORIZED, f"the credential is of {principal.name[:80]!r}, which is no DID known here")
    if not principal.may(Scope.RUN):
        raise UAMPError(Code.UNAUTHORIZED, "the credential may not send envelopes: it lacks the scope 'run'")
    return PeerCaller(principal.name, principal.name)
