"""UAMP's error codes, what each is on every binding, and the one error object that carries them.

Source: UAMP envelope 1.0, section 9. Codes marked as extensions are ours: the specification has no code for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType

from perdure.errors import ProtocolError
from perdure.upp.json_value import JSONObject, JSONValue

PROBLEM_MEDIA_TYPE = "application/problem+json"

_CODE = re.compile(r"[1-9]\.[0-9]{2}")
_MAX_RETRY_AFTER_SECONDS = 86_400


class Code(StrEnum):
    """A code of an error object."""

    MALFORMED = "4.00"
    UNAUTHENTICATED = "4.01"
    UNAUTHORIZED = "4.03"
    UNKNOWN_STREAM = "4.04"
    SEQUENCE_GAP = "4.09"
    EXPIRED = "4.10"
    TOO_LARGE = "4.13"
    UNSUPPORTED = "4.15"
    CONFLICT = "4.22"
    RATE_LIMITED = "4.29"
    INTERNAL = "5.00"
    BUSY = "5.04"


@dataclass(frozen=True, slots=True)
class Carriage:
    """How one code travels.

    Attributes:
        http_status: where there is no stream yet. Inside a stream the status stays 200 and an error delta tells.
        grpc_status: the name of the status.
        ws_close: the close code that follows the error frame; None if the connection stays open.
        retryable: whether the same request may succeed later.
        is_extension: whether the code is ours.
    """

    http_status: int
    grpc_status: str
    ws_close: int | None = None
    retryable: bool = False
    is_extension: bool = False


CARRIAGE: Mapping[Code, Carriage] = MappingProxyType(
    {
        Code.MALFORMED: Carriage(400, "INVALID_ARGUMENT", is_extension=True),
        Code.UNAUTHENTICATED: Carriage(401, "UNAUTHENTICATED", 4401),
        Code.UNAUTHORIZED: Carriage(403, "PERMISSION_DENIED", 4403),
        Code.UNKNOWN_STREAM: Carriage(404, "NOT_FOUND", is_extension=True),
        Code.SEQUENCE_GAP: Carriage(409, "ABORTED", retryable=True),
        Code.EXPIRED: Carriage(410, "FAILED_PRECONDITION", is_extension=True),
        Code.TOO_LARGE: Carriage(413, "RESOURCE_EXHAUSTED", 1009),
        Code.UNSUPPORTED: Carriage(415, "UNIMPLEMENTED", is_extension=True),
        Code.CONFLICT: Carriage(409, "ALREADY_EXISTS", is_extension=True),
        Code.RATE_LIMITED: Carriage(429, "RESOURCE_EXHAUSTED", retryable=True, is_extension=True),
        Code.INTERNAL: Carriage(500, "INTERNAL", is_extension=True),
        Code.BUSY: Carriage(503, "UNAVAILABLE", retryable=True),
    }
)


class UAMPError(ProtocolError):
    """An error with a UAMP code: one that we raise, or one that a peer has sent.

    Attributes:
        code: of the table, or what a peer sent in its place.
        message: the same as the error's text.
        retryable: whether the same request may succeed later.
        retry_after: how long to wait first; None if unsaid.
        ref: the id of the envelope that it is about, as that envelope wrote it; None if unknown.
    """

    def __init__(
        self,
        code: Code | str,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after: timedelta | None = None,
        ref: str | None = None,
    ) -> None:
        super().__init__(message, code=str(code))
        self.message = message
        self.retryable = self.carriage.retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.ref = ref

    @property
    def carriage(self) -> Carriage:
        """How it travels; a code that is not of the table travels as an internal error."""
        return CARRIAGE[Code(self.code)] if self.code in tuple(Code) else CARRIAGE[Code.INTERNAL]

    def to_json(self) -> JSONObject:
        """The error object: payload of an error delta, content of an error envelope."""
        made: JSONObject = {"code": self.code, "message": self.message, "retryable": self.retryable}
        if self.retry_after is not None:
            made["retry_after"] = math.ceil(self.retry_after.total_seconds())
        if self.ref is not None:
            made["ref"] = self.ref
        return made

    def to_problem(self) -> JSONObject:
        """The body of an HTTP error: RFC 9457's members and those of the error object."""
        status = self.carriage.http_status
        return {
            "type": "about:blank",
            "title": self.message,
            "status": status,
            "detail": self.message,
            **self.to_json(),
        }

    def about(self, envelope_id: str) -> UAMPError:
        """The same error with the id of the envelope that it is about."""
        return UAMPError(
            self.code, self.message, retryable=self.retryable, retry_after=self.retry_after, ref=envelope_id
        )


def read_error(value: JSONValue) -> UAMPError:
    """The error of an error object that a peer sent. Who sent it is for the caller to know.

    Raises:
        UAMPError: 4.00 if it is no error object.
    """
    if not isinstance(value, dict):
        raise malformed("an error object must be a JSON object")
    code, message = value.get("code"), value.get("message")
    if not isinstance(code, str) or _CODE.fullmatch(code) is None or not isinstance(message, str):
        raise malformed("an error object needs 'code' (as 4.09) and 'message'")
    retryable, after, ref = value.get("retryable"), value.get("retry_after"), value.get("ref")
    seconds = None
    if isinstance(after, int | float) and not isinstance(after, bool) and after >= 0:
        seconds = min(float(after), _MAX_RETRY_AFTER_SECONDS)
    return UAMPError(
        code,
        message,
        retryable=retryable if isinstance(retryable, bool) else None,
        retry_after=None if seconds is None else timedelta(seconds=seconds),
        ref=ref if isinstance(ref, str) else None,
    )


def malformed(message: str) -> UAMPError:
    """An error 4.00 to raise: what was sent breaks the form that the protocol asks for."""
    return UAMPError(Code.MALFORMED, message)
