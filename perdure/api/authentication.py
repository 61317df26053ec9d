"""Who sends a request: an API key or a token says so. Without either, on this machine alone, nobody is asked.

A key goes into `Authorization: Bearer` or `X-API-Key`, a token into the former. Never into the address, which proxies and
browsers write down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

from starlette.requests import HTTPConnection

from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused
from perdure.api.tokens import TokenVerifier, refused, token_verifier
from perdure.config import Settings
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.outbound import is_loopback_name
from perdure.store.api_keys import PREFIX, KeyRow, are_there_keys, find_key, key_id, note_use
from perdure.store.database import Database, is_away

CACHE_SECONDS = 3.0
"""For so long a process goes on with what it read: a revoked key may work for so long."""

ANONYMOUS = "anonymous"
PRINCIPAL = "perdure.principal"
"""Where the guard keeps who calls. In the scope itself: a server may share `scope["state"]` between requests."""

_MAX_CACHED = 10_000
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="perdure"'}


class Authenticates(Protocol):
    """What `requires` needs of `app.state.authenticator`."""

    async def authenticate(self, connection: HTTPConnection, /) -> Principal:
        """Who it is, or `Refused`."""
        ...

    async def recognize(self, connection: HTTPConnection, /) -> Principal | None:
        """Who it is; None if it shows nothing; or `Refused`."""
        ...


class Authenticator:
    """Answers from what it has read in the last seconds, so that a request costs no round trip of its own."""

    def __init__(
        self,
        database: Database,
        *,
        tenant: str,
        tokens: TokenVerifier | None = None,
        may_be_open: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read nothing yet.

        Args:
            database: where the keys are.
            tenant: the anonymous caller's.
            tokens: accepts tokens; without it there are keys only.
            may_be_open: nobody needs to be known, until there is a key. Only for a server that is reached from this
                machine alone: see `check_bind`.
            clock: seconds.
        """
        self._database = database
        self._tenant = tenant
        self._tokens = tokens
        self._open = may_be_open and tokens is None
        self._open_read_at: float | None = None
        self._clock = clock
        self._keys: dict[str, tuple[float, KeyRow | None]] = {}

    @property
    def is_open(self) -> bool:
        """Whether nobody needs to be known, as last read. Once it is not so, it never is again in this process."""
        return self._open

    async def authenticate(self, connection: HTTPConnection) -> Principal:
        """Who sends a request.

        Raises:
            Refused: it shows nothing (401), nothing that is worth anything (401), or two things (400).
            ServerUnavailable: that cannot be found out now.
        """
        found = await self.recognize(connection)
        if found is None:
            raise Refused(
                401,
                "unauthenticated",
                "show an API key (`perdure keys create`) or a token: Authorization: Bearer ...",
                _CHALLENGE,
            )
        return found

    async def recognize(self, connection: HTTPConnection) -> Principal | None:
        """Who sends a request; None if it shows nothing, and that is not enough. Else as `authenticate`.

        While nobody is asked who they are, a credential that is no key is as good as none.
        """
        credential = _credential(connection)
        if credential is None:
            return await self._nobody()
        if self._open and not credential.startswith(PREFIX):  # clients of OpenAI's cannot but show something
            found = await self._nobody()
            if found is not None:
                return found
        return await self.principal_of(credential)

    async def principal_of(self, credential: str) -> Principal:
        """Whose an API key or a token is, wherever it stood.

        Raises:
            Refused: it is worth nothing (401).
            ServerUnavailable: that cannot be found out now.
        """
        if credential.startswith(PREFIX):
            return await self._of_key(credential)
        if self._tokens is None:
            raise refused("the credential is no API key (pdk_...), and no tokens are accepted here")
        return await self._tokens.verify(credential)

    async def _nobody(self) -> Principal | None:
        if self._open and not self._is_fresh(self._open_read_at):
            with self._away():
                self._open = not await are_there_keys(self._database)
            self._open_read_at = self._clock()
        return Principal(ANONYMOUS, self._tenant, frozenset({Scope.ADMIN})) if self._open else None

    async def _of_key(self, key: str) -> Principal:
        with self._away():
            row = await self._row(key)
        if row is None or not row.opens(key, datetime.now(UTC)):
            raise refused("the API key is not known, or was revoked, or has expired")
        scopes = frozenset(scope for scope in Scope if scope.value in row.scopes)
        return Principal(row.name, row.tenant, scopes, row.expires_at)

    async def _row(self, key: str) -> KeyRow | None:
        identity = key_id(key)
        if identity is None:
            return None
        read_at, row = self._keys.get(identity, (None, None))
        if self._is_fresh(read_at):
            return row
        row = await find_key(self._database, identity)
        while len(self._keys) >= _MAX_CACHED:
            self._keys.pop(next(iter(self._keys)))  # the one that was read first
        self._keys[identity] = (self._clock(), row)
        now = datetime.now(UTC)
        if row is not None and row.opens(key, now):
            await note_use(self._database, row, now)
        return row

    @contextmanager
    def _away(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            if not is_away(error):
                raise
            raise ServerUnavailable(f"PostgreSQL at {self._database.address} does not answer") from error

    def _is_fresh(self, read_at: float | None) -> bool:
        return read_at is not None and self._clock() - read_at < CACHE_SECONDS


async def is_open(database: Database, settings: Settings) -> bool:
    """Whether no caller needs to be known: no tokens are accepted, and nobody was ever given a key.

    Raises:
        InvalidInput: the settings ask for tokens but do not say enough.
    """
    return token_verifier(settings) is None and not await are_there_keys(database)


async def make_authenticator(database: Database, settings: Settings, *, host: str) -> Authenticator:
    """The authenticator of a server that binds to `host`.

    Raises:
        InvalidInput: it would be open to others, or the settings for tokens do not say enough.
    """
    is_for_all = await is_open(database, settings)
    check_bind(host, is_for_all)
    return Authenticator(database, tenant=settings.tenant, tokens=token_verifier(settings), may_be_open=is_for_all)


def check_bind(host: str, open: bool) -> None:
    """See that an open server is reached from this machine alone.

    Args:
        host: the address it binds to.
        open: whether it asks nobody who they are.

    Raises:
        InvalidInput: it is open and would be reached from elsewhere.
    """
    if open and not is_loopback_name(host):
        raise InvalidInput(
            f"without authentication the server binds to this machine alone, not to {host}: give it --host 127.0.0.1, or "
            "create a key with `perdure keys create NAME --scope run`, or set PERDURE_JWT_ISSUER and its companions"
        )


def _credential(connection: HTTPConnection) -> str | None:
    """The one credential of a request, or None.

    Raises:
        Refused: there are several, or it has another form.
    """
    bearers = connection.headers.getlist("authorization")
    keys = connection.headers.getlist("x-api-key")
    if len(bearers) + len(keys) > 1:
        raise Refused(400, "bad_request", "show one credential: either Authorization: Bearer or X-API-Key")
    if keys:
        return keys[0].strip()
    if not bearers:
        return None
    scheme, _, credential = bearers[0].strip().partition(" ")
    if scheme.lower() != "bearer" or not credential.strip().isascii() or not credential.strip():
        raise refused("the header must be Authorization: Bearer KEY-OR-TOKEN")
    return credential.strip()
