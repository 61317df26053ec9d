"""Payloads of Temporal that are too large for a history, in PostgreSQL: Temporal's external storage under our claim check.

A payload comes here sealed by the codec, if there are keys. What history holds in its place is a claim: tenant, session
and sha256 of the stored bytes. It is freed with its session.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.dialects.postgresql import insert as upsert
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from perdure.errors import DamagedSession, InvalidInput
from perdure.store.database import Database
from perdure.store.payloads import read_payloads
from perdure.store.rotating import PAYLOAD
from perdure.store.tables import payloads as rows
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import sha256_hex

THRESHOLD_BYTES = 256 * 1024
_KINDS = ("session", "stage")


def external_storage(database: Database) -> ExternalStorage:
    """What clients and workers put payloads of `THRESHOLD_BYTES` and more into."""
    return ExternalStorage(drivers=[PostgresDriver(database)], payload_size_threshold=THRESHOLD_BYTES)


class PostgresDriver(StorageDriver):
    """Keeps payloads in the table of the same name, beside the bodies of their session."""

    def __init__(self, database: Database) -> None:
        """Keep them in `database`."""
        self._database = database

    def name(self) -> str:
        """See base class."""
        return "perdure.postgres"

    def type(self) -> str:
        """See base class."""
        return "perdure.postgres"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See base class.

        Raises:
            InvalidInput: the payload is not of a workflow of ours, so nothing would ever free it.
        """
        target = context.target
        key = key_of(target.id or "" if isinstance(target, StorageDriverWorkflowInfo) else "")
        bodies = [payload.SerializeToString(deterministic=True) for payload in payloads]
        assert all(body.startswith(PAYLOAD) for body in bodies), (
            "their first field is their metadata, which they all have"
        )
        named = {sha256_hex(body): body for body in bodies}
        values = [
            {"tenant_id": key.tenant, "session_id": key.session, "sha256": sha256, "bytes": body}
            for sha256, body in named.items()
        ]
        async with self._database.transaction() as connection:
            await connection.execute(upsert(rows).on_conflict_do_nothing(), values)
        return [_claim(key, sha256_hex(body)) for body in bodies]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class.

        Raises:
            DamagedSession: one is not there, has another hash, or its claim cannot be read.
        """
        found: list[Payload] = []
        for claim in claims:
            key, sha256 = _claimed(claim)
            body = (await read_payloads(self._database, key, [sha256]))[sha256]
            found.append(Payload.FromString(body))
        return found


def key_of(workflow: str) -> SessionKey:
    """The session whose rows a workflow's payloads are kept with.

    Raises:
        InvalidInput: it is no workflow of ours.
    """
    kind, _, rest = workflow.partition("/")
    tenant, _, session = rest.partition("/")
    if kind not in _KINDS or not tenant or not session:
        raise InvalidInput(
            f"a payload of more than {THRESHOLD_BYTES} bytes of workflow {workflow[:80]!r} cannot be stored: "
            "only workflows of sessions have a place for it"
        )
    return SessionKey(tenant, session)


def _claim(key: SessionKey, sha256: str) -> StorageDriverClaim:
    return StorageDriverClaim({"tenant": key.tenant, "session": key.session, "sha256": sha256})


def _claimed(claim: StorageDriverClaim) -> tuple[SessionKey, str]:
    try:
        data = claim.claim_data
        return SessionKey(data["tenant"], data["session"]), data["sha256"]
    except KeyError as error:
        raise DamagedSession(f"the claim of a payload names no {error.args[0]}; it is not used") from error
