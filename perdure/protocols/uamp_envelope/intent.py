"""The ten intents, and which of them open an exchange, answer one, or stand alone. Source: UAMP envelope 1.0, 4.1."""

from __future__ import annotations

from enum import StrEnum


class Intent(StrEnum):
    """What an envelope is sent for."""

    ASK = "ask"
    INFORM = "inform"
    PROPOSE = "propose"
    CONFIRM = "confirm"
    DENY = "deny"
    PROGRESS = "progress"
    CANCEL = "cancel"
    SUBSCRIBE = "subscribe"
    NOTIFY = "notify"
    ERROR = "error"

    @property
    def opens(self) -> bool:
        """Whether it opens an exchange with a stream: it is answered by `202` with a `Location`."""
        return self in _OPENING

    @property
    def stands_alone(self) -> bool:
        """Whether it is complete as soon as it is received."""
        return self in _ALONE

    @property
    def answers(self) -> bool:
        """Whether it is about an exchange that is there: it names one by `reply_to` or `stream_id`."""
        return not self.opens and not self.stands_alone


_OPENING = frozenset({Intent.ASK, Intent.SUBSCRIBE, Intent.PROPOSE})
_ALONE = frozenset({Intent.INFORM, Intent.NOTIFY})
