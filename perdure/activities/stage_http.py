"""A task that is an HTTP call, carried out: the request sent once, and its answer as the task's result.

Where it goes says the definition that the operator deployed, and no argument can change the server: so, unlike an address
that a client gave (`perdure.runtime.outbound`), it may lead into a private network, where most of what is called is. What the
server would decide is refused: redirects are not followed.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import timedelta
from functools import cache, partial

import httpx

from perdure.errors import InvalidInput
from perdure.uaip.arguments import argument_problems, misfit, with_defaults
from perdure.uaip.bound_task import HttpTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.http_request import HttpRequest, make_request
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uaip.task_run import finish
from perdure.upp.deadline import CancelledFromWithin, DeadlineExceeded, run_with_deadline
from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed
from perdure.upp.redaction import known_secrets
from perdure.upp.secrets import Secret, value_of

MAX_ANSWER_BYTES = 1_000_000
"""How large an answer may be, as large as a session's state; more of it is not read."""

DEFAULT_TIMEOUT_S = 60.0
"""How long a call may take that says nothing of it."""

NEVER_BETTER = ("HTTPClientError", "AnswerTooLarge")
"""Errors that another try would have too."""

_READS = ("GET", "HEAD")
_SHOWN = 500
_REDIRECTS = 300
_ERRORS = 400
_SERVERS = 500
_PASSING = (408, 425, 429)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class _Failed(Exception):
    """The call came to nothing that the task could return."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.error = TaskError(type, known_secrets.text(message))


async def run_http(
    task: HttpTask,
    pinned: TaskSpec,
    arguments: JSONObject,
    state: State,
    context: TaskContext,
    *,
    secrets: Mapping[str, Secret],
) -> TaskRun:
    """Returns what came of one call, whatever the server does.

    An answer is the value of its JSON, or its text; null if it is empty. One of status 300 and up is the task's error. The
    idempotency key goes along with all methods but GET and HEAD.

    Args:
        task: as it is deployed now.
        pinned: as the session's definition has it: its call, schemas and timeout count.
        arguments: as the client sent them.
        state: of the session; it gets the result if the task says so.
        context: of this call.
        secrets: of the App, by name.

    Raises:
        asyncio.CancelledError: the caller was cancelled.
    """
    problems = argument_problems(pinned.parameters, arguments)
    if problems:
        return TaskRun(refusal=misfit(pinned.name, problems))
    call = pinned.http or task.call
    given = with_defaults(pinned.parameters, arguments)
    key = None if call.method in _READS else context.idempotency_key
    secret = partial(value_of, secrets)
    try:
        request = make_request(call, given, state.to_json(), secret=secret, idempotency_key=key)
        return finish(pinned, await _within(pinned, request), state)
    except _Failed as failed:
        return TaskRun(error=failed.error)
    except (InvalidInput, TypeError) as error:
        return TaskRun(error=TaskError(type(error).__name__, known_secrets.text(str(error))))


async def _within(pinned: TaskSpec, request: HttpRequest) -> JSONValue:
    seconds = DEFAULT_TIMEOUT_S if pinned.timeout_s is None else pinned.timeout_s
    try:
        return await run_with_deadline(_send(request), timedelta(seconds=seconds))
    except DeadlineExceeded:
        raise _Failed(
            "TimeoutError", f"task '{pinned.name}' timed out after {seconds:g} s{_unknown(request)}"
        ) from None
    except CancelledFromWithin:
        raise _Failed("RuntimeError", f"task '{pinned.name}' was cancelled from within") from None


async def _send(request: HttpRequest) -> JSONValue:
    """Each call has a connection of its own: one that idled may be closed just then, and nobody would know what was done."""
    body = bytearray()
    try:
        async with (
            httpx.AsyncClient(verify=_certificates(), follow_redirects=False, timeout=None) as client,
            client.stream(request.method, request.url, headers=request.headers, content=request.body) as response,
        ):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    break
    except _UNSENT as error:
        raise _Failed("ConnectionError", f"the server cannot be reached: {_said(error)}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _Failed("ConnectionError", f"the call broke off: {_said(error)}{_unknown(request)}") from error
    return _value(response, bytes(body))


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust; reading them takes a quarter of a second, so a process does it once."""
    return httpx.create_ssl_context()


def _value(response: httpx.Response, body: bytes) -> JSONValue:
    status = f"{response.status_code} {response.reason_phrase}".rstrip()
    if response.status_code >= _ERRORS:
        said = _text(response, body[: 4 * _SHOWN]) or ""
        is_ours = response.status_code < _SERVERS and response.status_code not in _PASSING
        kind = "HTTPClientError" if is_ours else "HTTPServerError"
        raise _Failed(kind, f"the server answered {status}: {_short(said)}".removesuffix(": "))
    if response.status_code >= _REDIRECTS:
        raise _Failed("HTTPClientError", f"the server answered {status}, and redirects are not followed")
    if len(body) > MAX_ANSWER_BYTES:
        raise _Failed("AnswerTooLarge", f"the server's answer is larger than {MAX_ANSWER_BYTES:,} bytes")
    if not body:
        return None
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return well_formed(loads(body))
        except (ValueError, RecursionError) as error:
            raise _Failed("UnreadableAnswer", f"the server's answer is no JSON: {_short(str(error))}") from error
    text = _text(response, body)
    if text is None:
        raise _Failed("UnreadableAnswer", f"the server's answer is {kind or 'data'}, neither JSON nor text")
    return text


def _text(response: httpx.Response, body: bytes) -> str | None:
    """The body as text; None if it is none. One of an error may have been cut inside a character."""
    lenient = "replace" if response.status_code >= _ERRORS else "strict"
    try:
        return body.decode(response.charset_encoding or "utf-8", lenient)
    except (UnicodeDecodeError, LookupError):
        return None


def _unknown(request: HttpRequest) -> str:
    return "" if request.method in _READS else "; whether the server has acted is not known"


def _said(error: Exception) -> str:
    return _short(str(error) or type(error).__name__)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
