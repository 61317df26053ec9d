"""Envelopes of an identity: built of what a caller says, and signed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict, Unpack
from uuid import UUID, uuid4

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.body import Compression, encode_body
from perdure.protocols.uamp_envelope.envelope import Envelope, Reference, build_envelope
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.signature import sign_envelope
from perdure.runtime.envelopes.client.identity import Identity
from perdure.upp.json_value import JSONObject


class Members(TypedDict, total=False):
    """What an envelope may have besides intent, content and recipient.

    Attributes:
        type: the content's media type; text/plain if it is not given.
        compression: of the content; none if it is not given.
        id: the same for the same envelope; drawn if it is not given.
        reply_to: the id of the envelope that it answers, in that envelope's spelling.
        context: envelopes that it refers to.
        stream_id: the stream that it opens, chosen by the server if it is not given, or belongs to.
        delta_window: how many frames may come without an ACK; 64 if it is not given.
        cap_token: a capability token for the receiver.
        ext: extensions.
    """

    type: str
    compression: Compression
    id: UUID
    reply_to: str | None
    context: Sequence[Reference]
    stream_id: str | None
    delta_window: int | None
    cap_token: str | None
    ext: JSONObject | None


def signed_envelope(
    identity: Identity,
    now: datetime,
    intent: Intent | str,
    content: str | bytes,
    *,
    to: str,
    **members: Unpack[Members],
) -> Envelope:
    """An envelope with its signature; see `EnvelopeClient.sign`.

    Raises:
        InvalidInput: there is no such intent.
        UAMPError: 4.00: something cannot stand in an envelope.
    """
    body = encode_body(members.get("type", "text/plain"), content, members.get("compression", "none"))
    unsigned = build_envelope(
        id=members.get("id") or uuid4(),
        now=now,
        sender=identity.did,
        to=[to],
        intent=_intent(intent),
        body=body,
        reply_to=members.get("reply_to"),
        context=members.get("context", ()),
        stream_id=members.get("stream_id"),
        delta_window=members.get("delta_window"),
        cap_token=members.get("cap_token"),
        ext=members.get("ext"),
    )
    return sign_envelope(unsigned, identity.key)


def _intent(name: Intent | str) -> Intent:
    try:
        return Intent(name)
    except ValueError:
        raise InvalidInput(f"no intent {name!r}; there are {', '.join(Intent)}") from None
