"""The choice of a binding: which connection a name and a URL stand for."""

from __future__ import annotations

import httpx

from perdure.errors import InvalidInput
from perdure.runtime.envelopes.client.connection import BINDINGS, Binding, EnvelopeConnection
from perdure.runtime.envelopes.client.grpc import GrpcConnection
from perdure.runtime.envelopes.client.http import HttpConnection
from perdure.runtime.envelopes.client.http3 import Http3Transport
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.client.socket import SocketConnection
from perdure.runtime.envelopes.client.tls import Trust


def server_url(url: str) -> httpx.URL:
    """The URL of a server, without a path.

    Raises:
        InvalidInput: it is none: UAMP is never spoken without TLS.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidInput(f"{url[:80]!r} is no URL: {error}") from None
    if parsed.scheme != "https" or not parsed.host or parsed.userinfo or parsed.path not in ("", "/") or parsed.query:
        raise InvalidInput(f"{url[:80]!r} must be https://HOST or https://HOST:PORT")
    return parsed


def connect(binding: Binding, url: str, *, trust: Trust, bearer: str | None, patience: Patience) -> EnvelopeConnection:
    """A connection that is made by its first use.

    Args:
        binding: how to talk.
        url: of the server.
        trust: how to judge the server and what to show it.
        bearer: for `Authorization`; None for none.
        patience: how long an answer and a silent stream are waited for.

    Raises:
        InvalidInput: no such binding, or no such URL, or files that cannot be used.
    """
    server = server_url(url)
    headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
    match binding:
        case "h2":
            transport = httpx.AsyncHTTPTransport(verify=trust.context(["h2"]), http1=False, http2=True, trust_env=False)
            return HttpConnection(_http(server, headers, transport), patience)
        case "h3":
            if trust.client is not None:
                raise InvalidInput("HTTP/3 takes no client certificate; use a bearer token, or another binding")
            return HttpConnection(_http(server, headers, Http3Transport(trust.pem())), patience)
        case "ws":
            return SocketConnection(server, trust=trust, bearer=bearer, patience=patience)
        case "grpc":
            return GrpcConnection(server, trust=trust, bearer=bearer, patience=patience)
        case _:
            raise InvalidInput(f"no binding {binding!r}; there are {', '.join(BINDINGS)}")


def _http(server: httpx.URL, headers: dict[str, str], transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=server, headers=headers, transport=transport, trust_env=False, follow_redirects=False
    )
