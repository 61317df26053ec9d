"""Our own server of envelopes for the checks: real Temporal and PostgreSQL, a worker process, an API on real TLS sockets.

The API runs in the test's own process, so that its clock can be put forward; `new_api` starts further replicas as
processes. Peers' keys reach all of them by a file.
"""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import websockets

from perdure.api.backend import Backend
from perdure.api.listener import bound
from perdure.config import Settings
from perdure.runtime.addresses import ServerAddresses
from perdure.store.api_keys import create_key
from perdure.store.database import Database
from tests.conformance.envelope_api import LocalApi
from tests.conformance.envelope_certificates import Certificate, EnvelopeCertificates
from tests.conformance.envelope_clock import AdjustableClock
from tests.conformance.envelope_lines import GrpcLine, HttpLine, SocketLine, grpc_channel, http_client
from tests.conformance.envelope_peer import Peer
from tests.conformance.uamp_agents import PRICES
from tests.conformance.uamp_wire import PATIENCE
from tests.integration.access_stage import own_database
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess

APP = "tests.conformance.uamp_agents:app"
TENANT = "default"
PEERS = {"ann": "ES256", "bob": "ES256", "edd": "EdDSA"}
"""Peers that every server knows: `did:web:ann.example` and so on, with the algorithms of their keys."""


class EnvelopeServer:
    """Where a server is, and what may be done to it.

    Attributes:
        stack: its servers.
        database_url: of a database that nobody else uses.
        gates: the folder in which gates of plans are opened.
        certificates: the authority that all trust, the same for all servers of the stack.
        clock: of the API in this process; other processes have the real time.
        host: what its DIDs are made of, "localhost:PORT".
        did: of the host: the default agent (assistant).
        url: of the API, `https://localhost:PORT`.
        grpc_target: host and port of its gRPC.
        peers: agents elsewhere that it knows, by name.
        tokens: their API keys, by DID.
        settings: of the API in this process.
        environment: of its processes.
        worker: the process that serves its agents.
    """

    worker: WorkerProcess
    _api: LocalApi

    def __init__(
        self, stack: Stack, database_url: str, environment: dict[str, str], settings: dict[str, Any], app: str = APP
    ) -> None:
        self.stack, self.database_url, self._app = stack, database_url, app
        self.gates = stack.folder / f"gates-{uuid.uuid4().hex}"
        self.gates.mkdir()
        self.certificates = certificates_of(stack.folder)
        self.clock = AdjustableClock()
        self._listener = bound("127.0.0.1", int(settings.pop("api_port", 0)))
        self.host = f"localhost:{self._listener.getsockname()[1]}"
        self.did = f"did:web:{self.host.replace(':', '%3A')}"
        self.url = f"https://{self.host}"
        grpc_port = int(settings.pop("uamp_grpc_port", 0)) or _free_port()
        self.grpc_target = f"localhost:{grpc_port}"
        self.peers = {name: self.new_peer(f"did:web:{name}.example", alg=alg) for name, alg in PEERS.items()}
        self.tokens: dict[str, str] = {}
        keys = stack.folder / f"peers-{uuid.uuid4().hex}.json"
        keys.write_text(json.dumps({peer.did: {"keys": [peer.public]} for peer in self.peers.values()}))
        shared: dict[str, Any] = {
            "api_tls_cert": self.certificates.server.cert,
            "api_tls_key": self.certificates.server.key,
            "uamp_host": self.host,
            "uamp_keys": keys,
            "uamp_client_ca": self.certificates.authority,
            "uamp_trust": self.certificates.authority,
            **settings,
        }
        own = {
            "PERDURE_DATABASE_URL": database_url,
            "PERDURE_TASK_QUEUE": f"envelopes-{uuid.uuid4().hex}",
            "PERDURE_UAMP_GATES": str(self.gates),
            "PERDURE_PRICES": json.dumps(PRICES),
        }
        self.environment = (
            own | {f"PERDURE_{name.upper()}": _text(value) for name, value in shared.items()} | environment
        )
        self.settings = Settings(api_host="127.0.0.1", uamp_grpc_port=grpc_port, **shared)

    def begin(self) -> None:
        """Start its worker and its API."""
        self.tokens = asyncio.run(self._make_tokens())
        self.worker = self.new_worker()
        self._api = LocalApi(self._backend(), self._listener, self.settings)
        self.worker.wait_ready()
        self._api.wait_ready(self.url, self.certificates.trust())

    def restart(self) -> None:
        """End the API in this process and start it anew, at the same place."""
        self._api.stop()
        self._api = LocalApi(self._backend(), self._listener, self.settings)
        self._api.wait_ready(self.url, self.certificates.trust())

    def stop_api(self) -> None:
        """End the API in this process and let go of its place, for a process to take it."""
        self._api.stop()
        self._listener.close()

    def new_api_here(self, **environment: str) -> ApiProcess:
        """An API in a process, at the place of the one that was stopped."""
        port = {"PERDURE_UAMP_GRPC_PORT": self.grpc_target.rpartition(":")[2]}
        return self.new_api("--port", self.host.rpartition(":")[2], **port, **environment)

    def end(self) -> None:
        """Stop all."""
        try:
            self._api.stop()
        finally:
            self._listener.close()
            self.worker.kill()

    def new_worker(self, app: str | None = None, **environment: str) -> WorkerProcess:
        """Another worker; of the server's app unless another one is named."""
        return WorkerProcess(self.stack, app or self._app, **(self.environment | environment))

    def new_api(self, *arguments: str, **environment: str) -> ApiProcess:
        """Another replica of the API, a process; it serves the same DIDs at a port of its own."""
        return ApiProcess(self.stack, *arguments, **(self.environment | environment))

    def new_peer(self, did: str, *, alg: str = "ES256") -> Peer:
        """An agent elsewhere; its key is not known to the server by this."""
        return Peer(did, to=self.did, alg=alg, now=self.clock)

    def did_of(self, agent: str) -> str:
        """The DID of an agent served here."""
        return f"{self.did}:agents:{agent}"

    def open_gate(self, name: str) -> None:
        """Have whoever waits at it go on."""
        (self.gates / name).touch()

    async def bearer(self, did: str, *scopes: str) -> str:
        """An API key that is named by a DID; with the scopes read and run unless others are said."""
        database = Database(self.database_url, pool_size=1)
        _, key = await create_key(database, TENANT, did, scopes or ("read", "run"))
        await database.close()
        return key

    @asynccontextmanager
    async def http(
        self,
        peer: Peer | str = "ann",
        *,
        bearer: str | None = "",
        certificate: Certificate | None = None,
        url: str | None = None,
        http1: bool = False,
    ) -> AsyncGenerator[HttpLine]:
        """A connection of a peer by HTTP.

        Args:
            peer: one, or the name of one that the server knows.
            bearer: its token; "" for the one that was made for it, None for none.
            certificate: of the client, for mTLS.
            url: of another replica.
            http1: whether to speak HTTP/1.1 only, instead of HTTP/2 only.
        """
        who = self._peer(peer)
        trust = self.certificates.trust(certificate)
        async with http_client(url or self.url, trust, self._token(who, bearer), http1=http1) as http:
            yield HttpLine(who, http)

    @asynccontextmanager
    async def socket(
        self,
        peer: Peer | str = "ann",
        *,
        bearer: str | None = "",
        certificate: Certificate | None = None,
        url: str | None = None,
    ) -> AsyncGenerator[SocketLine]:
        """A connection of a peer by WebSocket; arguments as of `http`."""
        who = self._peer(peer)
        token = self._token(who, bearer)
        async with websockets.connect(
            (url or self.url).replace("https", "wss", 1) + "/uamp/1/ws",
            ssl=self.certificates.trust(certificate),
            additional_headers={} if token is None else {"authorization": f"Bearer {token}"},
            compression=None,
            max_size=None,
            **PATIENCE,
        ) as connection:
            yield SocketLine(who, connection)

    @asynccontextmanager
    async def grpc(
        self,
        peer: Peer | str = "ann",
        *,
        bearer: str | None = "",
        certificate: Certificate | None = None,
        target: str | None = None,
    ) -> AsyncGenerator[GrpcLine]:
        """A connection of a peer by gRPC; arguments as of `http`."""
        who = self._peer(peer)
        token = self._token(who, bearer)
        authority = self.certificates.authority.read_bytes()
        async with grpc_channel(target or self.grpc_target, authority, certificate) as channel:
            yield GrpcLine(who, channel, [] if token is None else [("authorization", f"Bearer {token}")])

    def _peer(self, peer: Peer | str) -> Peer:
        return self.peers[peer] if isinstance(peer, str) else peer

    def _token(self, peer: Peer, bearer: str | None) -> str | None:
        return self.tokens[peer.did] if bearer == "" else bearer

    def _backend(self) -> Backend:
        return Backend(ServerAddresses(self.stack.addresses.temporal, self.database_url), clock=self.clock)

    async def _make_tokens(self) -> dict[str, str]:
        return {peer.did: await self.bearer(peer.did) for peer in self.peers.values()}


@cache
def certificates_of(folder: Path) -> EnvelopeCertificates:
    """The authority of a stack, so that its servers trust each other."""
    return EnvelopeCertificates(folder / "envelope-authority")


@contextmanager
def envelope_server(
    stack: Stack, *, app: str = APP, environment: dict[str, str] | None = None, **settings: Any
) -> Generator[EnvelopeServer]:
    """A server, while the context lasts.

    Args:
        stack: its servers.
        app: what its worker serves.
        environment: more of it for its processes.
        settings: of all its processes, as fields of `Settings`.
    """
    with own_database(stack) as url:
        served = EnvelopeServer(stack, url, environment or {}, settings, app)
        served.begin()
        try:
            yield served
        finally:
            served.end()


def _text(value: Any) -> str:
    """A setting as the environment has it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value.total_seconds()) if isinstance(value, timedelta) else str(value)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
