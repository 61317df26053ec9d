"""What the commands that talk to another agent's server share: who asks, what it trusts, and which agent is meant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urlsplit

import typer

from perdure.cli.certs import certificates_of
from perdure.config import Settings, load_settings
from perdure.errors import InvalidInput

if TYPE_CHECKING:  # the client takes long to import, and the help does without
    from perdure.uamp_envelope_client import AgentKeys, ClientCertificate, EnvelopeClient, Identity

IDENTITY_FILE = "uamp-identity.json"


class BindingName(StrEnum):
    """How to talk to the server."""

    H2 = "h2"
    H3 = "h3"
    WS = "ws"
    GRPC = "grpc"


Url = Annotated[
    str, typer.Argument(metavar="URL", help="The server, https://HOST:PORT; for one of its agents with /agents/NAME.")
]
IdentityFile = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        envvar="PERDURE_UAMP_IDENTITY",
        help=f"Who asks: a file of `perdure uamp identity`; .perdure/{IDENTITY_FILE} by default.",
    ),
]
Bearer = Annotated[
    str | None,
    typer.Option(
        envvar="PERDURE_UAMP_BEARER",
        help="A token that the server knows the identity by; best in the variable, where nobody else sees it.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        help="A client certificate for the identity, in place of a token; at this machine one of `perdure certs` by default."
    ),
]
CertificateKey = Annotated[Path | None, typer.Option("--key", help="The certificate's private key.")]
TrustFile = Annotated[
    Path | None,
    typer.Option(
        envvar="PERDURE_UAMP_TRUST",
        help="Authorities that the server may have its certificate of, besides the usual ones; that of `perdure certs` by default.",
    ),
]
Via = Annotated[BindingName, typer.Option("--binding", help="How to talk to the server; for grpc URL has its port.")]
Seconds = Annotated[
    float, typer.Option("--patience", min=0, help="How many seconds to wait for a busy or absent server.")
]


@dataclass(frozen=True, slots=True)
class Remote:
    """A server, and how it is asked.

    Attributes:
        url: as the user gave it.
        identity: the file of who asks.
        bearer: a token.
        certificate: a client certificate.
        key: its private key.
        trust: authorities.
        binding: how to talk.
        patience: in seconds.
    """

    url: str
    identity: Path | None = None
    bearer: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    trust: Path | None = None
    binding: BindingName = BindingName.H2
    patience: float = 60

    @property
    def server(self) -> str:
        """The server's URL without a path."""
        return self.url[: len(self.url) - len(self._path)]

    @property
    def is_here(self) -> bool:
        """Whether the server is this machine."""
        from perdure.runtime.outbound import is_loopback_name

        return is_loopback_name(urlsplit(self.url).hostname or "")

    def agent(self) -> str:
        """The DID of the agent that the URL means.

        Raises:
            InvalidInput: none can be told from it.
        """
        from perdure.protocols.uamp_envelope.did_web import web_did

        if self.binding is BindingName.GRPC:
            raise InvalidInput("the port of gRPC is in no agent's name; say --to did:web:HOST%3APORT")
        parts = urlsplit(self.url)
        path = [unquote(segment) for segment in parts.path.split("/") if segment]
        if path and (len(path) != 2 or path[0] != "agents"):
            raise InvalidInput(
                f"URL's path {parts.path[:80]!r} is no agent's; give https://HOST:PORT/agents/NAME, or --to"
            )
        return web_did(parts.hostname or "", *path, port=None if parts.port in (None, 443) else parts.port)

    def manifest_path(self) -> str:
        """Where the manifest of the agent is that the URL means."""
        from perdure.protocols.uamp_envelope.manifest import MANIFEST_PATH

        return f"{self._path.rstrip('/')}/agent-manifest.json" if self._path.strip("/") else MANIFEST_PATH

    def known_trust(self) -> Path | None:
        """The authorities to trust: as given, as set, or that of `perdure certs` if it is there."""
        settings = load_settings()
        authority = certificates_of(settings).authority
        return self.trust or settings.uamp_trust or (authority if authority.is_file() else None)

    def keys(self) -> AgentKeys:
        """Finds the keys of those who answer.

        Raises:
            InvalidInput: a file cannot be read.
        """
        from perdure.uamp_envelope_client import AgentKeys

        settings = load_settings()
        return AgentKeys(
            file=settings.uamp_keys,
            trust=self.known_trust(),
            allow_private=self.is_here or settings.uamp_allow_private,
        )

    def client(self) -> EnvelopeClient:
        """A client of the server, in the name of the identity.

        Raises:
            InvalidInput: something that is needed is not there or cannot be used.
        """
        from perdure.uamp_envelope_client import EnvelopeClient, Patience

        settings = load_settings()
        identity = self._identity(settings)
        waits = timedelta(seconds=self.patience)
        return EnvelopeClient(
            self.server,
            identity=identity,
            keys=self.keys(),
            bearer=self.bearer,
            client_certificate=self._certificate(settings, identity.did),
            trust=self.known_trust(),
            binding=self.binding.value,
            patience=Patience(busy=waits, broken=waits),
        )

    @property
    def _path(self) -> str:
        parts = urlsplit(self.url)
        return self.url[self.url.index(parts.netloc) + len(parts.netloc) :] if parts.netloc else ""

    def _identity(self, settings: Settings) -> Identity:
        from perdure.uamp_envelope_client import read_identity

        path = self.identity or settings.data_folder / IDENTITY_FILE
        if self.identity is None and not path.exists():
            raise InvalidInput(f"nobody asks: {path} is not there; make it: `perdure uamp identity did:web:HOST`")
        return read_identity(path)

    def _certificate(self, settings: Settings, did: str) -> ClientCertificate | None:
        from perdure.uamp_envelope_client import ClientCertificate

        if (self.certificate is None) is not (self.key is None):
            raise InvalidInput("give --certificate and --key together")
        if self.certificate is not None and self.key is not None:
            return ClientCertificate(self.certificate, self.key)
        local = certificates_of(settings)
        if (
            self.bearer is not None
            or self.binding is BindingName.H3
            or not self.is_here
            or not local.authority.is_file()
        ):
            return None
        pair = local.client(did)
        return ClientCertificate(pair.certificate, pair.key)
