"""UPPError: what every failure of a model provider becomes, with UPP's codes.

Which HTTP answer becomes which code is decided by the providers' HTTP layer; the rest of the tree is `perdure.errors`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

from perdure.errors import PerdureError
from perdure.upp.json_value import JSONObject, JSONValue


class ErrorCode(StrEnum):
    """What went wrong. Source: UPP-1.2, error codes."""

    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    RATE_LIMITED = "RATE_LIMITED"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_RESPONSE = "INVALID_RESPONSE"
    CONTENT_FILTERED = "CONTENT_FILTERED"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    NETWORK_ERROR = "NETWORK_ERROR"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"


class Modality(StrEnum):
    """The kind of model that was used. Source: UPP-1.2, modalities."""

    LLM = "llm"
    EMBEDDING = "embedding"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"


RETRYABLE_CODES = frozenset(
    {ErrorCode.RATE_LIMITED, ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT, ErrorCode.PROVIDER_ERROR}
)


class UPPError(PerdureError):
    """A failure of the model layer.

    Attributes:
        message: what was wrong, without the code.
        code: UPP's code; compares equal to its string.
        provider: the provider's name; "upp" if no provider was involved.
        modality: the kind of model.
        status_code: the HTTP status, if there was an HTTP answer.
        cause: the error underneath, also set as `__cause__`.
        retry_after: how long the provider asks to wait before the next attempt.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode,
        provider: str = "upp",
        modality: Modality = Modality.LLM,
        status_code: int | None = None,
        cause: BaseException | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = ErrorCode(code)
        self.provider = provider
        self.modality = Modality(modality)
        self.status_code = status_code
        self.cause = cause
        self.retry_after = retry_after
        if cause is not None:
            self.__cause__ = cause

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE_CODES

    def __str__(self) -> str:
        status = "" if self.status_code is None else f", status: {self.status_code}"
        return f"UPPError [{self.code}]: {self.message} (provider: {self.provider}, modality: {self.modality}{status})"

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.message, self.code, self.provider, self.modality, self.status_code, self.cause)
        return type(self), (*arguments, self.retry_after)

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form; the cause is its text. `retryAfterMs` is ours, rounded up, present only if known.

        Source: UPP-1.2, UPPError.toJSON.
        """
        result: JSONObject = {
            "name": "UPPError",
            "message": self.message,
            "code": str(self.code),
            "provider": self.provider,
            "modality": str(self.modality),
        }
        if self.status_code is not None:
            result["statusCode"] = self.status_code
        if self.cause is not None:
            result["cause"] = str(self.cause)
        if self.retry_after is not None:
            result["retryAfterMs"] = -(-self.retry_after // timedelta(milliseconds=1))
        return result

    @classmethod
    def from_json(cls, value: JSONValue) -> UPPError:
        """Returns the error that `to_json` wrote; its cause is a plain Exception with the cause's text.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object or the code or modality is unknown.
        """
        match value:
            case {"message": str(message), "code": str(code), **rest}:
                pass
            case _:
                raise UPPError("a UPPError's JSON must be an object with message and code", ErrorCode.INVALID_REQUEST)
        try:
            known, modality = ErrorCode(code), Modality(str(rest.get("modality", Modality.LLM)))
        except ValueError as error:
            raise UPPError(f"a UPPError's JSON: {error}", ErrorCode.INVALID_REQUEST, cause=error) from error
        status, cause, wait = rest.get("statusCode"), rest.get("cause"), rest.get("retryAfterMs")
        return UPPError(
            message,
            known,
            str(rest.get("provider", "upp")),
            modality,
            status if isinstance(status, int) else None,
            None if cause is None else Exception(str(cause)),
            timedelta(milliseconds=wait) if isinstance(wait, int) else None,
        )
