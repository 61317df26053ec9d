"""A failed run's error as a response's. Source: UAMP 1.0, section 6.8."""

from __future__ import annotations

from perdure.protocols.uamp_events.faults import Code
from perdure.protocols.uamp_events.server_events import WireError
from perdure.upp.errors import ErrorCode
from perdure.upp.json_value import JSONObject

_BY_CODE: dict[str, str] = {
    ErrorCode.RATE_LIMITED: Code.RATE_LIMIT_EXCEEDED,
    ErrorCode.QUOTA_EXCEEDED: Code.RATE_LIMIT_EXCEEDED,
}


def wire_error(error: JSONObject) -> WireError:
    """The error of a run.failed event's data: {"type", "message", "code"?, ...}.

    A code of ours is told as it is, in lower case; a model's failure without one is `generation_error`.
    """
    code, message = error.get("code"), error.get("message")
    known = _BY_CODE.get(str(code)) or (str(code).lower() if isinstance(code, str) and code else None)
    details: JSONObject = {"type": error.get("type")}
    return WireError(
        code=str(known or Code.GENERATION_ERROR),
        message=message if isinstance(message, str) and message else "the run failed",
        details=details if isinstance(error.get("type"), str) else None,
    )
