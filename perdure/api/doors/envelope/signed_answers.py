"""What a two-way connection is told about an envelope that it has sent: a signed envelope, since it has no status lines.

`progress` says that an envelope was taken, `error` that it was refused. Neither is to be answered.
"""

from __future__ import annotations

from uuid import uuid4

from perdure.protocols.uamp_envelope.envelope import MAX_NAME_CHARS, build_envelope
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.identifier import check_stream_id, read_id
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.signature import envelope_bytes, sign_envelope
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.desk import Receipt
from perdure.runtime.envelopes.parts import DeskParts
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.redaction import known_secrets

_JSON = "application/json"


class SignedAnswers:
    """Makes the answers to one caller."""

    def __init__(self, parts: DeskParts, caller: PeerCaller) -> None:
        """Answer `caller` in our agents' names."""
        self._parts = parts
        self._caller = caller

    async def taken(self, received: JSONObject, receipt: Receipt) -> bytes:
        """That an envelope was taken.

        Args:
            received: the envelope.
            receipt: what the desk says of it.
        """
        body: JSONObject = {"accepted": True, "id": receipt.envelope_id}
        if receipt.stream_id is not None:
            body |= {"stream_id": receipt.stream_id, "location": receipt.location}
        return await self._signed(Intent.PROGRESS, received, body, receipt.stream_id)

    async def refused(self, received: JSONObject, error: UAMPError) -> bytes:
        """That an envelope or a delta was refused.

        Args:
            received: it, as far as it could be read; empty if it could not.
            error: why.
        """
        told = known_secrets.json(error.to_json())
        return await self._signed(Intent.ERROR, received, told, _stream_id(received))

    async def _signed(self, intent: Intent, received: JSONObject, body: JSONObject, stream_id: str | None) -> bytes:
        own = await self._own(received)
        unsigned = build_envelope(
            id=uuid4(),
            now=self._parts.clock(),
            sender=own,
            to=[self._caller.did],
            intent=intent,
            body={"type": _JSON, "content": dumps(body).decode()},
            reply_to=id_of(received),
            stream_id=stream_id,
        )
        return envelope_bytes(sign_envelope(unsigned, await self._parts.signers.signing(own)))

    async def _own(self, received: JSONObject) -> str:
        """The agent of ours that answers: the one that was addressed, else the host's."""
        named = received.get("to")
        for did in named[:1] if isinstance(named, list) else []:
            if isinstance(did, str) and len(did) <= MAX_NAME_CHARS and await self._parts.own.agent_of(did) is not None:
                return did
        return self._parts.own.host_did


def id_of(received: JSONObject) -> str | None:
    """The id of an envelope, as its sender wrote it; None if it has none that can be one."""
    given = received.get("id")
    try:
        if isinstance(given, str):
            read_id(given)
            return given
    except UAMPError:
        return None
    return None


def _stream_id(received: JSONObject) -> str | None:
    given = received.get("stream_id")
    try:
        return check_stream_id(given) if isinstance(given, str) else None
    except UAMPError:
        return None
