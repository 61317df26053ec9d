"""Our errors as UAMP's codes. What is not the sender's business becomes an internal error without a detail."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from perdure.errors import (
    LimitExceeded,
    PaymentNeeded,
    PerdureError,
    QueueFull,
    RunActive,
    ServerUnavailable,
    SessionGone,
    SessionLimitReached,
    UnknownAgent,
    UnknownSession,
    UserError,
)
from perdure.protocols.uamp_envelope.error import Code, UAMPError

_BUSY_AFTER = timedelta(seconds=5)
_CODES: Mapping[type[PerdureError], Code] = MappingProxyType(
    {
        QueueFull: Code.BUSY,
        RunActive: Code.BUSY,
        ServerUnavailable: Code.BUSY,
        PaymentNeeded: Code.UNAUTHORIZED,
        SessionLimitReached: Code.UNAUTHORIZED,
        LimitExceeded: Code.UNAUTHORIZED,
        SessionGone: Code.UNKNOWN_STREAM,
        UnknownSession: Code.UNKNOWN_STREAM,
        UnknownAgent: Code.UNKNOWN_STREAM,
        UserError: Code.MALFORMED,
    }
)


def uamp_error(error: BaseException) -> UAMPError:
    """The error of the protocol that an error of ours is."""
    if isinstance(error, UAMPError):
        return error
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    if code is None:
        return UAMPError(Code.INTERNAL, "the server failed")
    if code is Code.BUSY:
        return UAMPError(
            code, "the server is busy" if isinstance(error, ServerUnavailable) else str(error), retry_after=_BUSY_AFTER
        )
    return UAMPError(code, str(error))
