"""What an ask came to: an answer, a failure that the model is told of, or that it is to be tried again."""

from __future__ import annotations

from datetime import timedelta

from perdure.errors import InvalidInput, RunCancelled, ServerUnavailable
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.runtime.envelopes.client.answer import Answer
from perdure.runtime.envelopes.client.errors import UnsignedError
from perdure.uap.remote_agent import result_of
from perdure.upp.chance import CHANCE
from perdure.upp.json_value import JSONObject

_FIRST_PAUSE = timedelta(milliseconds=500)
_DOUBLINGS = 10
_LONGEST_ASKED = timedelta(hours=1)


class TryLater(Exception):
    """The other side is away or busy.

    Attributes:
        problem: what is in the way, {"type", "message"}.
        at_least: what it asked to be waited; None if nothing.
    """

    def __init__(self, problem: JSONObject, at_least: timedelta | None) -> None:
        super().__init__(str(problem["message"]))
        self.problem = problem
        self.at_least = at_least

    @classmethod
    def of(cls, error: ServerUnavailable | UAMPError) -> TryLater:
        """The word on an error that may pass."""
        after = error.retry_after if isinstance(error, UAMPError) else None
        return cls({"type": type(error).__name__, "message": str(error)}, after)

    def pause(self, failures: int, longest: timedelta) -> timedelta:
        """How long to wait before the next try.

        Args:
            failures: how many tries have failed before this one.
            longest: a pause of ours; the other side may ask for a longer one, up to an hour.
        """
        pause = min(_FIRST_PAUSE * 2 ** min(failures, _DOUBLINGS), longest) * CHANCE.uniform(0.5, 1)
        return pause if self.at_least is None else max(pause, min(self.at_least, _LONGEST_ASKED))


def answered(answer: Answer, *, needs_signature: bool) -> JSONObject:
    """What the wait is answered where the agent has: the same as in process; see `result_of`."""
    try:
        return {"result": result_of(answer, needs_signature=needs_signature), "isError": False}
    except InvalidInput as error:
        return {"result": str(error), "isError": True}


def agent_failed(error: UAMPError) -> JSONObject:
    """What the wait is answered where the agent's last word is an error."""
    return {"result": f"The agent failed ({error.code}): {error.message}", "isError": True}


def failed(error: Exception) -> JSONObject:
    """What the wait is answered where there is no answer."""
    return {"result": _words(error), "isError": True}


def _words(error: Exception) -> str:
    if isinstance(error, UnsignedError):
        return f"The agent's server refused this ({error.code}): {error.message}"
    if isinstance(error, UAMPError):
        return f"The agent's answer cannot be used ({error.code}): {error.message}"
    if isinstance(error, RunCancelled):
        return "The agent's work on this was cancelled on its side."
    return f"The agent could not be asked: {error}"
