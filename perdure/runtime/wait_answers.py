"""What the answer to each kind of wait must be. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from perdure.activities.contracts import APPROVAL, CLIENT_TOOL, PAYMENT, REMOTE
from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, dumps, jsonable, sha256_hex

LARGEST_BYTES = 8 * 1024 * 1024
"""The longest JSON that an answer may be."""

OUTCOMES = ("happened", "not_run", "unknown", "stop")
_DECISIONS = {
    "approve": {"arguments", "args_sha256"},
    "reject": {"reason", "args_sha256"},
    "answer": {"result", "isError", "args_sha256"},
}


def checked_answer(kind: str, answer: JSONObject) -> tuple[JSONObject, str | None]:
    """An answer as it is stored, and the hash of the arguments that its author looked at, if it says one.

    Raises:
        InvalidInput: an answer of another form than this kind of wait takes, or too long.
    """
    if not isinstance(cast(object, answer), dict):
        raise InvalidInput(f"an answer is a JSON object, not a {type(answer).__name__}")
    try:
        made = cast(JSONObject, jsonable(answer))
    except TypeError as error:
        raise InvalidInput(f"an answer must be JSON: {error}") from error
    size = len(dumps(made))
    if size > LARGEST_BYTES:
        raise InvalidInput(f"the answer is {size:,} bytes of JSON; at most {LARGEST_BYTES:,} are taken")
    check = _CHECKS.get(kind, _check_outcome)
    check(made)
    seen = made.pop("args_sha256", None)
    if "arguments" in made:
        made["arguments_sha256"] = sha256_hex(dumps(made["arguments"]))
    return made, cast("str | None", seen)


def _check_approval(answer: JSONObject) -> None:
    decision = answer.get("decision")
    allowed = _DECISIONS.get(decision) if isinstance(decision, str) else None
    if allowed is None:
        raise InvalidInput("the answer needs a 'decision': approve, reject or answer (with the 'result' in its place)")
    _check_names(answer, {"decision", *allowed}, f"an answer whose decision is {decision}")
    if "arguments" in answer and not isinstance(answer["arguments"], dict):
        raise InvalidInput("'arguments' must be a JSON object: all of the arguments that the tool is to be called with")
    if not isinstance(answer.get("reason", ""), str):
        raise InvalidInput("'reason' must be text")
    if not isinstance(answer.get("args_sha256", ""), str):
        raise InvalidInput("'args_sha256' must be the wait's, as text")
    if decision == "answer":
        _check_result(answer)


def _check_client_tool(answer: JSONObject) -> None:
    _check_names(answer, {"result", "isError"}, "the answer to a client-side tool, or in another agent's place,")
    _check_result(answer)


def _check_payment(answer: JSONObject) -> None:
    raise InvalidInput(
        "a payment is not answered here, for what pays is secret: POST /api/runs/{run}/payment, "
        "or `perdure payments pay RUN`"
    )


def _check_outcome(answer: JSONObject) -> None:
    if answer.get("outcome") not in OUTCOMES:
        raise InvalidInput("the answer needs an 'outcome': happened (with its 'result'), not_run, unknown or stop")
    _check_names(answer, {"outcome", "result", "isError"}, "the answer to an unknown outcome")
    _check_flag(answer)


def _check_result(answer: JSONObject) -> None:
    if "result" not in answer:
        raise InvalidInput("the answer to a client-side tool, or in a tool's place, needs a 'result'")
    _check_flag(answer)


def _check_flag(answer: JSONObject) -> None:
    if not isinstance(answer.get("isError", False), bool):
        raise InvalidInput("'isError' must be true or false")


def _check_names(answer: JSONObject, known: set[str], what: str) -> None:
    unknown = sorted(set(answer) - known)
    if unknown:
        raise InvalidInput(f"{what} has no {', '.join(unknown)[:80]!r}; it may have {', '.join(sorted(known))}")


_CHECKS: dict[str, Callable[[JSONObject], None]] = {
    APPROVAL: _check_approval,
    CLIENT_TOOL: _check_client_tool,
    PAYMENT: _check_payment,
    REMOTE: _check_client_tool,
}
