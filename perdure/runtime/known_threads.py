"""Which stored session holds a caller's history, so that it is uploaded once and not with each input again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.upp.json_value import dumps
from perdure.upp.messages import Message

_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class KnownThread:
    """A session that held a thread exactly, at its current position, after an input.

    Attributes:
        session: its id.
        ordinal: place of the session's last input then; if it has taken another one since, it holds more.
    """

    session: str
    ordinal: int


class KnownThreads:
    """The threads of one connection, by agent and by all that their messages hold; the least recently kept leave.

    What is taken is gone: a second input after the same history begins a session of its own, as two branches would.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        """Know at most `limit` threads; each takes a hundred bytes or two."""
        self._limit = limit
        self._known: OrderedDict[bytes, KnownThread] = OrderedDict()

    def take(self, agent: str, messages: Sequence[Message]) -> KnownThread | None:
        """The session that holds these messages, once; None if none is known to."""
        return self._known.pop(_digest(agent, messages), None)

    def keep(self, agent: str, messages: Sequence[Message], thread: KnownThread) -> None:
        """Note that a session of the agent holds these messages and nothing else."""
        self._known[_digest(agent, messages)] = thread
        while len(self._known) > self._limit:
            self._known.popitem(last=False)


def _digest(agent: str, messages: Sequence[Message]) -> bytes:
    """Of what is said, not of ids alone: a caller may have changed a message and left its id."""
    digest = hashlib.sha256(agent.encode())
    for message in messages:
        digest.update(hashlib.sha256(dumps(message.to_json())).digest())
    return digest.digest()
