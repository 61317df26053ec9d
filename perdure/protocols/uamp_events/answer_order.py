"""The order in which session.create events are answered: that in which they came, whichever is ready first.

A client with several of them under way knows the answers by their order. Source: UAMP 1.0, section 10.
"""

from __future__ import annotations

from perdure.protocols.uamp_events.commands import Reaction


class AnswerOrder:
    """The sessions that were asked for and are not answered yet."""

    def __init__(self) -> None:
        """Begin with none."""
        self._answers: dict[str, Reaction | None] = {}

    def asked(self, session_id: str) -> None:
        """A session was asked for."""
        self._answers[session_id] = None

    def is_waiting(self, session_id: str) -> bool:
        """Whether the session's answer has not been released."""
        return session_id in self._answers

    def answer(self, session_id: str, reaction: Reaction) -> list[tuple[str, Reaction]]:
        """The session's answer is ready; returns the sessions and answers that may go out now, in order."""
        self._answers[session_id] = reaction
        released: list[tuple[str, Reaction]] = []
        for waiting, answer in list(self._answers.items()):
            if answer is None:
                break
            del self._answers[waiting]
            released.append((waiting, answer))
        return released
