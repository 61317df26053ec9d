"""Why Gemini stopped: as UPP's stop reason, or as the error that it is."""

from __future__ import annotations

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.providers.google.endpoint import PROVIDER
from perdure.upp.providers.google.wire import PromptFeedback

_FILTERED = frozenset(
    {
        "BLOCKLIST",
        "ESCALATION",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "MODEL_ARMOR",
        "PROHIBITED_CONTENT",
        "PUP_LIMITED_DISABLED",
        "RECITATION",
        "SAFETY",
        "SPII",
    }
)
_STOP_REASONS = {
    **dict.fromkeys(_FILTERED, "content_filter"),
    "CONTINUATION": "max_tokens",
    "MAX_TOKENS": "max_tokens",
    "TOOL_USE": "tool_use",
}
_MODEL_FAULTS = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"})
"""The model wrote what Google could not read. The answer is empty, and the same request mostly succeeds later."""


def stop_reason(reason: str | None, message: str | None, has_calls: bool) -> str:
    """Returns UPP's stop reason; STOP is "end_turn" with tool calls, too.

    Args:
        reason: Gemini's `finishReason`.
        message: Gemini's `finishMessage`, for errors.
        has_calls: whether the answer has tool calls. Then an UNEXPECTED_TOOL_CALL is for the caller to answer, who
            tells the model which tools there are.

    Raises:
        UPPError: PROVIDER_ERROR, which is retryable, if the model wrote a call or an answer that Google could not read;
            INVALID_REQUEST if a thought signature is missing from the history.
    """
    said = f": {message}" if message else ""
    if reason in _MODEL_FAULTS or (reason == "UNEXPECTED_TOOL_CALL" and not has_calls):
        raise UPPError(f"the model's answer was unusable ({reason}){said}", ErrorCode.PROVIDER_ERROR, PROVIDER)
    if reason == "MISSING_THOUGHT_SIGNATURE":
        raise UPPError(f"a thought signature is missing{said}", ErrorCode.INVALID_REQUEST, PROVIDER)
    return _STOP_REASONS.get(reason or "", "end_turn")


def blocked_prompt(feedback: PromptFeedback | None) -> UPPError | None:
    """Returns the error for a prompt that Gemini did not answer, or None if it was not blocked."""
    if feedback is None or feedback.blockReason in (None, "BLOCK_REASON_UNSPECIFIED"):
        return None
    said = f": {feedback.blockReasonMessage}" if feedback.blockReasonMessage else ""
    return UPPError(f"Gemini blocked the prompt ({feedback.blockReason}){said}", ErrorCode.CONTENT_FILTERED, PROVIDER)
