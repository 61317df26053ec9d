"""What all adapters make of a whole answer."""

from __future__ import annotations

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue, loads, well_formed
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest

_SHOWN = 80


def structured_data(request: LLMRequest, message: AssistantMessage, stop_reason: str, provider: str) -> JSONValue:
    """Returns the data of a structured answer; None if none was asked for or the model calls tools first.

    Raises:
        UPPError: CONTENT_FILTERED if the model refused; INVALID_RESPONSE if the text is no JSON, as when it was cut.
    """
    if request.structure is None or message.has_tool_calls:
        return None
    if stop_reason == "content_filter":
        raise UPPError(f"the model refused: {_short(message.text)}", ErrorCode.CONTENT_FILTERED, provider)
    try:
        return well_formed(loads(message.text.encode("utf-8", "surrogatepass")))
    except ValueError as error:
        raise UPPError(
            f"the structured answer is no JSON (it ended with {stop_reason!r}): {_short(message.text)!r}",
            ErrorCode.INVALID_RESPONSE,
            provider,
            cause=error,
        ) from error


def cut_stream(provider: str) -> UPPError:
    """Returns the error for a stream that ended before its answer did; the same request may succeed later."""
    return UPPError("the stream was cut before the answer was whole", ErrorCode.NETWORK_ERROR, provider)


def refuse(problem: str, provider: str) -> UPPError:
    """Returns the error for what a vendor cannot take, found before anything was sent."""
    return UPPError(problem, ErrorCode.INVALID_REQUEST, provider)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
