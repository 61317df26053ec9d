"""What a connection has opened: whose it was, and what would not open.

The driver decodes values where nobody can catch an error, and without knowing whose they are. So both are noted here, and
the block that used the connection ends with the error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import asyncpg

from perdure.errors import DamagedSession, PerdureError
from perdure.store.json_text import SEALED, read_json
from perdure.store.keyring import Keyring, header_of, is_sealed, scope_of, tenant_scope
from perdure.store.sealing import BODIES, PARTS, from_token, joined
from perdure.uap.session_key import SessionKey


@dataclass(slots=True)
class Opened:
    """Of one connection, since it was taken from the pool.

    Attributes:
        keyring: of the process.
        scopes: of all that was opened.
        error: of the first thing that did not open.
    """

    keyring: Keyring
    scopes: set[bytes] = field(default_factory=set[bytes])
    error: PerdureError | None = None

    def begin(self) -> None:
        """Forget what an earlier user of the connection has read."""
        self.scopes.clear()
        self.error = None

    def check(self, of: SessionKey | str | None) -> None:
        """See that all that was read did open, and was of this session, or of this tenant; None asks nothing of that.

        Raises:
            KeyMissing: this process lacks a key.
            DamagedSession: something was changed, or moved to where it does not belong.
        """
        if self.error is not None:
            raise self.error
        if of is None or not self.scopes:
            return
        wanted = tenant_scope(of) if isinstance(of, str) else scope_of(of.tenant, of.session)
        if any(not scope.startswith(wanted) for scope in self.scopes):
            where = f"tenant {of}" if isinstance(of, str) else f"session {of.session}"
            raise DamagedSession(f"a row of {where} has a body that was sealed for another; it is not used")

    def body(self, body: bytes) -> bytes:
        """A body, opened if it is sealed; empty if it does not open."""
        if not is_sealed(body):
            return body
        return self._open(body, BODIES) or b""

    def value(self, text: str) -> object:
        """A json column's value."""
        return read_json(text, self._joined)

    def _joined(self, value: dict[str, Any]) -> Any:
        plain = self._open(cast(str, value.pop(SEALED)), PARTS)
        return value if plain is None else joined(value, json.loads(plain))

    def _open(self, given: bytes | str, purpose: bytes) -> bytes | None:
        try:
            sealed = from_token(given) if isinstance(given, str) else given
            self.scopes.add(header_of(sealed)[1])
            return self.keyring.open(sealed, purpose=purpose)
        except PerdureError as error:
            self.error = self.error or error
            return None


async def install(connection: asyncpg.Connection[asyncpg.Record], opened: Opened) -> None:
    """Have a new connection give out bodies and JSON opened."""
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=str.encode,
        decoder=lambda data: opened.value(data.decode()),
    )  # fmt: skip
    await connection.set_type_codec(
        "bytea", schema="pg_catalog", format="binary", encoder=bytes, decoder=lambda data: opened.body(bytes(data))
    )
