"""What an exchange came to: the answer of an ask, and the decision on a proposal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perdure.errors import RunCancelled
from perdure.protocols.uamp_envelope.body import Content, decode_body
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType, chunk_data, delta_error
from perdure.protocols.uamp_envelope.envelope import Envelope, envelope_of
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.signature import read_signature, verify_signature
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.runtime.envelopes.client.connection import PeerKeys, Sent
from perdure.runtime.envelopes.client.errors import UnsignedError
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class Medium:
    """An image or other bytes in an answer.

    Attributes:
        mime: its media type; None if the agent does not say.
        data: its bytes.
    """

    mime: str | None
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an exchange ended with.

    Attributes:
        text: what the agent said.
        media: what it made besides, in its order.
        payload: of the terminal frame.
        is_signed: whether the agent has signed all frames, and its signature verified.
    """

    text: str
    media: tuple[Medium, ...] = field(repr=False)
    payload: JSONObject = field(repr=False)
    is_signed: bool

    @property
    def data(self) -> bytes:
        """The bytes of the first medium; none if there is none."""
        return self.media[0].data if self.media else b""

    @property
    def mime(self) -> str | None:
        """Of the same."""
        return self.media[0].mime if self.media else None


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a proposal, signed by the agent that it was made to.

    Attributes:
        intent: confirm or deny.
        reason: why; empty if it does not say.
        envelope: the signed answer.
    """

    intent: Literal[Intent.CONFIRM, Intent.DENY]
    reason: str
    envelope: Envelope


class AnswerCollector:
    """Puts an answer together from the frames of a stream."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._media: dict[int, bytearray] = {}
        self._mimes: dict[int, str] = {}

    def add(self, delta: Delta) -> None:
        """Take a frame in.

        Raises:
            UAMPError: 4.00: it is a chunk of neither text nor bytes.
        """
        payload = delta.payload
        if delta.type is not DeltaType.CHUNK:
            return
        data = chunk_data(delta)
        if isinstance(payload.get("text"), str):
            self._text.append(data.decode("utf-8"))
            return
        item, mime = payload.get("item"), payload.get("mime")
        number = item if isinstance(item, int) else 0
        self._media.setdefault(number, bytearray()).extend(data)
        if isinstance(mime, str):
            self._mimes[number] = mime

    def answer(self, terminal: Delta, *, is_signed: bool) -> Answer:
        """The answer, once the terminal frame has come.

        Raises:
            RunCancelled: the exchange was cancelled.
            UAMPError: the agent failed; an `UnsignedError` unless it has signed that.
        """
        if terminal.type is DeltaType.CANCEL:
            raise RunCancelled("the exchange with the other agent was cancelled")
        if terminal.type is DeltaType.ERROR:
            error = delta_error(terminal)
            raise error if is_signed else UnsignedError.of(error)
        payload, text = terminal.payload, "".join(self._text)
        said, mime = payload.get("text"), payload.get("mime")
        if isinstance(said, str):  # what the chunks said before a message began anew does not count
            text = said
        usual = mime if isinstance(mime, str) else None
        media = tuple(
            Medium(self._mimes.get(number, usual), bytes(data)) for number, data in sorted(self._media.items())
        )
        return Answer(text, media, payload, is_signed)


async def read_decision(terminal: Delta, sent: Sent, keys: PeerKeys) -> Decision:
    """The signed answer that the terminal frame of a proposal's stream carries.

    Raises:
        UAMPError: 4.00 if it carries none, 4.01 or 4.03 if it is not signed by the agent that was asked, 4.04 if it answers
            another envelope.
    """
    value = terminal.payload.get("envelope")
    if isinstance(value, str):
        value = parse_object(value.encode("utf-8"))
    if not isinstance(value, dict):
        raise malformed("the proposal's stream ended without a signed answer")
    envelope = envelope_of(value)
    if envelope.sender != sent.peer:
        raise UAMPError(Code.UNAUTHORIZED, f"{envelope.sender[:80]} cannot answer for {sent.peer[:80]}")
    verify_signature(envelope, await keys.keys(sent.peer, kid=read_signature(envelope).kid))
    if envelope.reply_to != sent.envelope.id or envelope.intent not in (Intent.CONFIRM, Intent.DENY):
        raise UAMPError(Code.UNKNOWN_STREAM, "the signed answer is to another envelope", ref=envelope.id_text)
    return Decision(envelope.intent, _reason(decode_body(envelope.body)), envelope)


def _reason(content: Content) -> str:
    """Why: the member `reason` of JSON, or what any other answer says."""
    if content.type.partition(";")[0].strip().lower() != "application/json":
        return content.text
    reason = parse_object(content.data).get("reason")
    return reason if isinstance(reason, str) else ""
