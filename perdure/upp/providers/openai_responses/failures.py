"""What the Responses API's error codes mean beyond what the codes of every vendor do."""

from __future__ import annotations

from perdure.upp.errors import ErrorCode
from perdure.upp.json_value import JSONObject

_CODES = {
    "invalid_prompt": ErrorCode.CONTENT_FILTERED,  # what the vendor calls a prompt that its policies forbid
    "bio_policy": ErrorCode.CONTENT_FILTERED,
    "misalignment_policy_violation": ErrorCode.CONTENT_FILTERED,
    "image_content_policy_violation": ErrorCode.CONTENT_FILTERED,
    "data_residency_mismatch": ErrorCode.INVALID_REQUEST,
    "failed_to_download_image": ErrorCode.INVALID_REQUEST,
}
_IMAGE_FAULTS = ("invalid_image", "invalid_base64_image", "image_", "unsupported_image", "empty_image")


def classify(status: int | None, error: JSONObject) -> ErrorCode | None:
    """Returns what an error's code means; None if it says no more than the status, or than other vendors' codes."""
    code = error.get("code")
    if not isinstance(code, str):
        return None
    return _CODES.get(code) or (ErrorCode.INVALID_REQUEST if code.startswith(_IMAGE_FAULTS) else None)
