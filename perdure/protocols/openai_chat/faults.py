"""Errors in OpenAI's form. Source: OpenAI API reference, error codes."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.errors import ProtocolError
from perdure.upp.errors import ErrorCode
from perdure.upp.json_value import JSONObject

INVALID = "invalid_request_error"

_TYPES = {
    400: INVALID,
    401: "authentication_error",
    402: "payment_required",
    403: "forbidden",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
_BY_CODE: dict[str, tuple[int, str]] = {
    ErrorCode.AUTHENTICATION_FAILED: (500, "provider_authentication_failed"),
    ErrorCode.RATE_LIMITED: (429, "rate_limit_exceeded"),
    ErrorCode.QUOTA_EXCEEDED: (429, "insufficient_quota"),
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: (400, "context_length_exceeded"),
    ErrorCode.CONTENT_FILTERED: (400, "content_filter"),
    ErrorCode.INVALID_REQUEST: (400, "invalid_request"),
    ErrorCode.MODEL_NOT_FOUND: (404, "model_not_found"),
    ErrorCode.TIMEOUT: (504, "timeout"),
}
_OF_RESPONSES: Mapping[str, tuple[int, str]] = {
    **{code.lower(): told for code, told in _BY_CODE.items()},
    "rate_limit_exceeded": (429, "rate_limit_exceeded"),
    "payment_timeout": (402, "payment_timeout"),
    "unauthorized": (401, "invalid_token"),
    "agent_offline": (404, "model_not_found"),
}


class ChatFault(ProtocolError):
    """A request that is refused, or failed.

    Attributes:
        status: of HTTP.
        type: OpenAI's kind of error.
        param: the part of the request that is wrong.
    """

    def __init__(
        self, message: str, *, status: int = 400, code: str = "invalid_value", param: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.type = _TYPES.get(status, INVALID if status < 500 else "server_error")
        self.param = param

    def to_json(self) -> JSONObject:
        """The body of the reply, and the last data of a stream that fails."""
        return {"error": {"message": str(self), "type": self.type, "param": self.param, "code": self.code}}


def response_fault(code: str, message: str) -> ChatFault:
    """The fault of a response that failed, by the code of its response.error."""
    status, told = _OF_RESPONSES.get(code, (500, code))
    return ChatFault(message, status=status, code=told)
