"""What a client sends to `/initialize` and `/execute`, read in the order in which UAIP checks it.

Source: UAIP 0.1, Endpoints and Errors. A request that cannot be read is 400 and never a list of misfits.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.errors import ProtocolError
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.refusal import Reason, Refusal
from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed

SESSION_HEADER = "X-Session-Id"
MAX_IDEMPOTENCY_KEY_CHARS = 200


class RequestRefused(ProtocolError):
    """A request that is refused before it becomes an action.

    Attributes:
        refusal: status and words.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail, code=refusal.reason.value)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Target:
    """Whom an action is for. Whether there is such a workflow and session is asked before the action is read.

    Attributes:
        session_id: of the header, as it came.
        workflow_name: of the body.
        body: all of it, for `read_action`.
    """

    session_id: str
    workflow_name: str
    body: JSONObject


def read_initialize(data: bytes) -> str:
    """The name of the workflow that `POST /initialize` asks for.

    Raises:
        RequestRefused: 400.
    """
    return _text(_body(data), "workflow_name")


def read_target(session_id: str | None, data: bytes) -> Target:
    """Whom `POST /execute` is for: header first, then JSON, then the workflow's name.

    Args:
        session_id: the value of the header `X-Session-Id`.
        data: the request's body.

    Raises:
        RequestRefused: 400.
    """
    named = read_session_id(session_id)
    body = _body(data)
    return Target(named, _text(body, "workflow_name"), body)


def read_session_id(header: str | None) -> str:
    """Whose session `POST /execute` is for; asked before the body, which may be too much to be read.

    Raises:
        RequestRefused: 400.
    """
    if header is None or not header.strip():
        raise RequestRefused(Refusal(Reason.MISSING_SESSION_HEADER, f"Missing {SESSION_HEADER} header"))
    return header.strip()


def read_action(body: JSONObject) -> Action:
    """What `POST /execute` asks for.

    Args:
        body: of a target whose workflow and session are there.

    Raises:
        RequestRefused: 400 if something is missing or of a wrong type; 422 if there is no such action.
    """
    name = _text(body, "action")
    if name not in tuple(ActionKind):
        raise RequestRefused(Refusal(Reason.UNKNOWN_ACTION, f"Unknown action type: {name:.128}"))
    kind = ActionKind(name)
    match kind:
        case ActionKind.METHOD_CALL:
            return Action(kind, _text(body, "task"), arguments=_object(body, "args") if "args" in body else {})
        case ActionKind.STAGE_TRANSITION:
            return Action(kind, _text(body, "stage"))
        case ActionKind.STATE_INPUT:
            return Action(kind, updates=_object(body, "state_updates"))
        case ActionKind.TERMINATE_SESSION:
            return Action(kind, reason="" if body.get("reason") in (None, "") else _text(body, "reason"))
        case ActionKind.HANDSHAKE:
            return Action(kind)


def read_key(header: str | None) -> str | None:
    """The idempotency key of the header `Idempotency-Key`, or None if there is none.

    Raises:
        RequestRefused: 400 if it is not 1 to 200 printable characters.
    """
    if header is None:
        return None
    if not 0 < len(header) <= MAX_IDEMPOTENCY_KEY_CHARS or not header.isprintable():
        raise _bad(f"'Idempotency-Key' must be 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable characters")
    return header


def _body(data: bytes) -> JSONObject:
    try:
        value = well_formed(loads(data))
    except (ValueError, RecursionError):  # what is no UTF-8 is a ValueError too
        raise _bad("Invalid JSON body") from None
    if not isinstance(value, dict):
        raise _bad("Invalid JSON body: it must be an object")
    return value


def _text(body: JSONObject, member: str) -> str:
    value: JSONValue = body.get(member)
    if value is None or value == "":
        raise _bad(f"Missing '{member}'")
    if not isinstance(value, str):
        raise _bad(f"'{member}' must be a string")
    return value


def _object(body: JSONObject, member: str) -> JSONObject:
    if member not in body:
        raise _bad(f"Missing '{member}'")
    value = body[member]
    if not isinstance(value, dict):
        raise _bad(f"'{member}' must be an object")
    return value


def _bad(detail: str) -> RequestRefused:
    return RequestRefused(Refusal(Reason.INVALID_REQUEST, detail))
