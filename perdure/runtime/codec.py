"""Payloads of Temporal, sealed by AES-256-GCM before they leave the process, opened when they come back.

A payload is sealed whole, its own metadata with it; the key's id stands in the metadata. It is bound to the tenant whose
workflow it is of, not to the workflow: whoever decodes for Temporal's UI or CLI is not told which one that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from perdure.errors import DamagedSession
from perdure.store.keyring import SCOPE_BYTES, Keyring, header_of, tenant_scope

ENCODING = b"binary/encrypted"
KEY_ID = "encryption-key-id"
_PURPOSE = b"payload"
_NOBODY = b"\0" * (SCOPE_BYTES // 2)


@dataclass(frozen=True, slots=True)
class SealingCodec(PayloadCodec, WithSerializationContext):
    """Seals with the first key of a keyring, opens with any. What was written before there were keys stays readable.

    Attributes:
        keyring: it has keys.
        tenant: whose payloads they are; None where that is not known.
    """

    keyring: Keyring
    tenant: str | None = None

    def with_context(self, context: SerializationContext) -> SealingCodec:
        """See base class."""
        if not isinstance(context, WorkflowSerializationContext | ActivitySerializationContext):
            return self
        return SealingCodec(self.keyring, _tenant_of(context.workflow_id or ""))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class."""
        return [self._sealed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See base class.

        Raises:
            KeyMissing: this process lacks a key. In a worker that fails the workflow task or the activity's try, which
                the server gives again until a worker has the key.
            DamagedSession: a payload was changed, or is another tenant's.
        """
        return [self._opened(payload) if is_sealed(payload) else payload for payload in payloads]

    def _sealed(self, payload: Payload) -> Payload:
        scope = (_NOBODY if self.tenant is None else tenant_scope(self.tenant)) + _NOBODY
        body = self.keyring.seal(payload.SerializeToString(), scope=scope, purpose=_PURPOSE)
        return Payload(metadata={"encoding": ENCODING, KEY_ID: (self.keyring.first or "").encode()}, data=body)

    def _opened(self, payload: Payload) -> Payload:
        plain = self.keyring.open(payload.data, purpose=_PURPOSE)
        owner = header_of(payload.data)[1][: len(_NOBODY)]
        if self.tenant is not None and owner not in (_NOBODY, tenant_scope(self.tenant)):
            raise DamagedSession(f"a payload of Temporal is not tenant {self.tenant}'s; it is not used")
        try:
            return Payload.FromString(plain)
        except DecodeError as error:
            raise DamagedSession("a payload of Temporal was sealed, but is none") from error


def is_sealed(payload: Payload) -> bool:
    """Whether a payload was sealed by a codec of ours."""
    return payload.metadata.get("encoding") == ENCODING and KEY_ID in payload.metadata


def _tenant_of(workflow: str) -> str | None:
    """The tenant that a workflow's id names, `session/TENANT/ID`; None if it is none of ours."""
    parts = workflow.split("/", 2)
    return parts[1] if len(parts) == 3 and parts[0] in ("session", "stage") else None
