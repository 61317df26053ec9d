"""What is wrong, as OpenAI tells it. Source: OpenAI API reference, error codes; UAMP 1.0, section 13.3."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.responses import JSONResponse

from perdure.api.answers import Answer
from perdure.api.problems import Fault
from perdure.protocols.openai_chat.faults import ChatFault
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

GUARDED = ("/chat/completions", "/v1/", "/agents/", "/models")
"""Beginnings of this door's paths; their callers must be known."""

_CODES = {
    "unauthenticated": "missing_token",
    "forbidden": "insufficient_scope",
    "invalid_input": "invalid_value",
    "unknown_agent": "model_not_found",
    "too_many_requests": "rate_limit_exceeded",
    "queue_full": "rate_limit_exceeded",
}
_STATUSES = {422: 400}
_NO_RETRY = {"X-Should-Retry": "false"}


def serves(path: str) -> bool:
    """Whether a path is this door's."""
    return path.startswith(GUARDED)


def error(fault: Fault) -> JSONResponse:
    """A response that tells a fault, without secrets that this process knows."""
    return refusal(chat_fault(fault), fault.headers, fault.extra)


def refusal(fault: ChatFault, headers: Mapping[str, str] | None = None, more: JSONObject | None = None) -> JSONResponse:
    """The same for a fault that is in this door's words already.

    Args:
        fault: what is wrong.
        headers: of the response.
        more: of a fault with status 402: `accepts`, how it can be paid.
    """
    body = fault.to_json()
    if fault.status == 402:
        body |= {"status_code": 402, "context": {"accepts": (more or {}).get("accepts") or []}}
    return Answer(known_secrets.json(body), fault.status, dict(headers or {}))


def after_its_run(fault: ChatFault, headers: Mapping[str, str], more: JSONObject | None = None) -> JSONResponse:
    """The same for a run that has begun: OpenAI's clients would have another one begun if they asked again by themselves."""
    return refusal(fault, {**headers, **_NO_RETRY}, more)


def chat_fault(fault: Fault) -> ChatFault:
    """A fault of the house in OpenAI's words."""
    code = _CODES.get(fault.code, fault.code)
    if fault.status == 401 and "invalid_token" in fault.headers.get("WWW-Authenticate", ""):
        code = "invalid_token"
    if fault.status == 402:
        code = str(fault.extra.get("reason") or code)
    param = "model" if code == "model_not_found" else None
    return ChatFault(fault.detail, status=_STATUSES.get(fault.status, fault.status), code=code, param=param)
