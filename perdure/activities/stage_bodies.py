"""What inside agents' stage sessions are kept in: the claim check, where each body stands under its hash."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.services import Services
from perdure.errors import SessionGone
from perdure.store.database import keep_trying
from perdure.store.message_rows import put_payloads
from perdure.store.opening import lock_head
from perdure.store.payloads import read_payloads
from perdure.testing.crash import crash_point
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import sha256_hex


class StoredBodies:
    """`StageBodies` of one session, in the store."""

    def __init__(self, services: Services, key: SessionKey, run: str) -> None:
        """Read and write by `services`, for a run; "" before one has begun."""
        self._services = services
        self._key = key
        self._run = run

    async def read(self, sha256: str) -> bytes:
        """See `StageBodies.read`. Raises DamagedSession."""
        known = self._services.bodies.get(self._name(sha256))
        if known is not None:
            return known
        database, key = self._services.database, self._key
        found = await keep_trying(lambda: read_payloads(database, key, [sha256]), deadline=STORE_PATIENCE)
        self._services.bodies.put(self._name(sha256), found[sha256])
        return found[sha256]

    async def write(self, bodies: Sequence[bytes]) -> None:
        """See `StageBodies.write`. Raises SessionGone if the session is being deleted."""
        services = self._services
        named = {sha256_hex(body): body for body in bodies}
        new = {name: body for name, body in named.items() if not services.has_kept(self._run, name)}
        if not new:
            return
        crash_point("stage_bodies.storing")
        await keep_trying(lambda: self._put(list(new.values())), deadline=STORE_PATIENCE)
        crash_point("stage_bodies.stored")
        services.keep(self._run, new if self._run else ())
        for name, body in new.items():
            services.bodies.put(self._name(name), body)

    async def _put(self, bodies: list[bytes]) -> None:
        async with self._services.database.transaction(self._key) as connection:
            head = await lock_head(connection, self._key)
            if head is None or head.deleting:
                raise SessionGone(f"session {self._key.session} is being deleted")
            await put_payloads(connection, self._key, bodies)

    def _name(self, sha256: str) -> str:
        return f"{self._key.workflow_id}/{sha256}"
