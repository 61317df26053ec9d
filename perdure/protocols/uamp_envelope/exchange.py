"""One exchange: an envelope that opened it, and the envelopes that answer it, with who may send which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State, Step, advanced, opened


@dataclass(frozen=True, slots=True)
class Exchange:
    """What must be known of an exchange to judge an envelope that is about it.

    Attributes:
        id: of the envelope that opened it.
        intent: of the same.
        sender: who asked.
        worker: who was asked: the one of its recipients whose exchange this is.
        stream_id: of its deltas; None for an intent that stands alone.
        state: where it is.
    """

    id: UUID
    intent: Intent
    sender: str
    worker: str
    stream_id: str | None
    state: State

    def matches(self, envelope: Envelope) -> bool:
        """Whether an answering envelope is about this exchange: by `reply_to`, or without one by `stream_id`."""
        if envelope.reply_to is not None:
            return envelope.reply_to == self.id and envelope.stream_id in (None, self.stream_id)
        return envelope.stream_id is not None and envelope.stream_id == self.stream_id

    def received(self, envelope: Envelope) -> Exchange:
        """The exchange after an answering envelope; the same if it came too late, which is no error.

        Raises:
            UAMPError: 4.04 if it is about another exchange; 4.03 if its sender may not send it.
        """
        if not envelope.intent.answers or not self.matches(envelope):
            raise UAMPError(Code.UNKNOWN_STREAM, "no such exchange", ref=envelope.id_text)
        if envelope.sender not in self._senders(envelope.intent):
            raise UAMPError(
                Code.UNAUTHORIZED, f"{envelope.intent} is not the sender's to send here", ref=envelope.id_text
            )
        return self.stepped(Step(envelope.intent.value))

    def stepped(self, step: Step) -> Exchange:
        """The exchange after a step that is no envelope: a terminal delta, a timeout, a stall."""
        return replace(self, state=advanced(self.state, step))

    def _senders(self, intent: Intent) -> tuple[str, ...]:
        match intent:
            case Intent.CANCEL:
                return (self.sender,)
            case Intent.CONFIRM | Intent.DENY:
                return (self.worker,)
            case _:  # progress: an ACK of the one who asked, or news of the other; error: of either
                return (self.sender, self.worker)


def open_exchange(envelope: Envelope, worker: str, stream_id: str | None) -> Exchange:
    """The exchange that an accepted envelope opens.

    Args:
        envelope: verified.
        worker: the recipient that took it.
        stream_id: the envelope's own, or one made for it; only used if the intent opens a stream.

    Raises:
        UAMPError: 4.04 if its intent answers an exchange.
    """
    state = opened(envelope.intent)
    return Exchange(
        id=envelope.id,
        intent=envelope.intent,
        sender=envelope.sender,
        worker=worker,
        stream_id=stream_id if envelope.intent.opens else None,
        state=state,
    )
