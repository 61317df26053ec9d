"""Returns and retries in Pydantic AI's JSON form, to and from `tool_return`.

A retry has had two shapes: until 2.x a `retry-prompt` part, since then a `tool-return` with outcome "retried" or, where no
tool is concerned, a `retry-feedback` part. Both shapes of one retry give the same action.
"""

from __future__ import annotations

from perdure.protocols.threadprotocol.models import ToolReturnAction
from perdure.upp.json_value import JSONObject, JSONValue

LEGACY_RETRY = "retry-prompt"
_VALIDATION: JSONObject = {"cause": "validation_error"}


def read_return(part: JSONObject, *, strict_seed: bool) -> JSONObject:
    """Status and content of a `tool-return`; an outcome that the status does not say is kept beside it."""
    outcome, retry = part.get("outcome") or "success", _retry(part.get("retry"))
    status = "success" if outcome == "success" else "error"
    if outcome == "retried" and retry.get("cause") == "validation_error" and not strict_seed:
        status = "validation_error"
    fields: JSONObject = {"status": status, "content": part.get("content")}
    if outcome != _outcome_of(status):
        fields["outcome"] = outcome
    if retry and not (status == "validation_error" and retry == _VALIDATION):
        fields["retry"] = retry
    return fields


def read_legacy_retry(part: JSONObject, *, strict_seed: bool) -> JSONObject:
    """Status and content of a `retry-prompt` that names a tool."""
    content = part.get("content")
    retry = dict(_VALIDATION) if isinstance(content, list) else None
    return read_return({"outcome": "retried", "content": content, "retry": retry}, strict_seed=strict_seed)


def read_feedback(part: JSONObject) -> JSONObject:
    """What a retry says that concerns no tool, in either shape."""
    content = part.get("content")
    retry = _retry(part.get("retry")) or {"cause": "validation_error" if isinstance(content, list) else "model_retry"}
    return {**retry, "content": content}


def write_return(action: ToolReturnAction) -> JSONObject:
    """The members of a `tool-return` that say what came of the call."""
    extensions = action.extensions
    outcome = extensions.get("outcome") or _outcome_of(action.status)
    fields: JSONObject = {"content": action.content, "outcome": outcome}
    retry = _retry(extensions.get("retry")) or (dict(_VALIDATION) if action.status == "validation_error" else {})
    if retry and outcome == "retried":
        fields["retry"] = retry
    return fields


def _outcome_of(status: str) -> str:
    return {"success": "success", "validation_error": "retried"}.get(status, "failed")


def _retry(value: JSONValue) -> JSONObject:
    return {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else {}
