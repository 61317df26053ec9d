"""What is wrong, in UAIP's words: a string `detail`, whatever the status. Source: UAIP 0.1, Errors."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from perdure.api.answers import Answer
from perdure.api.problems import Fault, Shape, problem
from perdure.protocols.uaip.models import ErrorBody
from perdure.uaip.refusal import Reason, Refusal, session_not_found
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

WORKFLOWS = "/api/workflows"
PATHS = frozenset({"/initialize", "/execute", WORKFLOWS})

INSTEAD: dict[str, Refusal] = {
    "unknown_session": session_not_found(),
    "session_gone": session_not_found(),
    "invalid_input": Refusal(Reason.INVALID_REQUEST, ""),
}
"""What UAIP has in the place of faults of the house; one without a detail keeps its own. Other faults keep their status."""


def serves(path: str) -> bool:
    """Whether a path is UAIP's."""
    return path in PATHS or path.startswith(f"{WORKFLOWS}/")


def error(fault: Fault) -> JSONResponse:
    """A response that tells a fault, without secrets that this process knows."""
    refusal = INSTEAD.get(fault.code)
    status, detail, more = fault.status, fault.detail, fault.extra
    if refusal is not None:
        status, detail, more = refusal.status, refusal.detail or fault.detail, refusal.more
    body: JSONObject = ErrorBody.model_validate({**more, "detail": detail}).to_json()
    return Answer(known_secrets.json(body), status, fault.headers)


def shape_of(path: str) -> Shape:
    """How a fault of a path is told: by UAIP's words if it is UAIP's, else as the house does."""
    return error if serves(path) else problem
