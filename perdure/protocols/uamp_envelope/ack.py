"""ACKs: how far a consumer has read a stream, without a gap. An ACK covers all before it.

Over HTTP an ACK is a signed envelope with intent `progress`; over a two-way binding it is a delta of type `progress`.
Source: UAMP envelope 1.0, section 5, which names `progress` and leaves the form open.
"""

from __future__ import annotations

from perdure.protocols.uamp_envelope.body import decode_body
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import malformed
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.upp.json_value import JSONObject

_JSON = "application/json"
_MAX_BYTES = 4096


def ack_payload(seq: int) -> JSONObject:
    """The payload of an ACK delta.

    Args:
        seq: the greatest up to which all deltas have come.
    """
    return {"ack": seq}


def ack_body(seq: int) -> JSONObject:
    """The body of an ACK envelope; it also has the stream's `stream_id`, and the ask's id as `reply_to`."""
    return {"type": _JSON, "content": f'{{"ack":{seq}}}'}


def read_ack_envelope(envelope: Envelope) -> int | None:
    """The sequence number that a `progress` envelope ACKs; None if it is none, but news of another kind.

    Raises:
        UAMPError: 4.00 if its `ack` is no sequence number.
    """
    kind = str(envelope.body["type"]).partition(";")[0].strip().lower()
    if envelope.intent is not Intent.PROGRESS or kind != _JSON:
        return None
    return _ack(parse_object(decode_body(envelope.body, max_bytes=_MAX_BYTES).data))


def read_ack_delta(delta: Delta) -> int | None:
    """The sequence number that a `progress` delta of a consumer ACKs; None if it is none.

    Raises:
        UAMPError: 4.00 if its `ack` is no sequence number.
    """
    return _ack(delta.payload) if delta.type is DeltaType.PROGRESS else None


def _ack(value: JSONObject) -> int | None:
    if "ack" not in value:
        return None
    seq = value["ack"]
    if not isinstance(seq, int) or isinstance(seq, bool) or seq < 0:
        raise malformed("'ack' must be a delta_seq")
    return seq
