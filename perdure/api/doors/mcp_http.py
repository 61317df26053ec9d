"""One HTTP request of an MCP client, answered by any process alike: the session's id says all there is to know.

With a handshake (2025-11-25 and before) the id of the MCP session names the stage session, which `initialize` opens or, if
the client names one, goes on with. A request of 2026-07-28 has no MCP session: it names the stage session, or is told to
shake hands. Source: MCP 2025-11-25 and 2026-07-28, Transports, Streamable HTTP.
"""

from __future__ import annotations

import secrets
from typing import cast

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, UnsupportedProtocolVersionErrorData
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Receive, Send

from perdure.api.access import Caller
from perdure.api.answers import Answer
from perdure.api.doors.mcp_seat import StageSeat, Standing
from perdure.api.doors.mcp_server import StageServer
from perdure.api.doors.mcp_stream import ChangeStream
from perdure.api.problems import Refused
from perdure.protocols.mcp.identity import Seat, read_seat
from perdure.protocols.uaip.request import SESSION_HEADER, RequestRefused, read_key
from perdure.runtime.stages import Stages
from perdure.uaip.refusal import Reason, Refusal, session_not_found
from perdure.upp.json_value import JSONObject, JSONValue, loads

MCP_SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
SESSION_PARAMETER = "session"
"""In the query: the stage session, for clients that can set no header."""

_CONNECTION_BYTES = 8


async def serve(caller: Caller, workflow: str, request: Request, send: Send) -> None:
    """Answer a request to `/mcp/{workflow}`.

    Args:
        caller: who asks; sessions are its tenant's.
        workflow: of the path.
        request: with its body unread.
        send: of ASGI.

    Raises:
        RequestRefused: there is no such workflow or session, or none is named.
        Refused: the method is none of MCP's.
    """
    stages, is_modern = caller.stages, _is_modern(request)
    if request.method == "GET" and not is_modern:
        seat, standing = await _seated(stages, workflow, _named(request))
        stream = ChangeStream(seat, standing, request, patience=caller.backend.patience)
        await stream(request.scope, request.receive, send)
    elif request.method == "POST":
        body = await request.body()
        named = _named(request)
        if is_modern and named is None:
            await _handshake_first(request, body)(request.scope, request.receive, send)
            return
        if not is_modern and _is_handshake(body):
            named = await _connected(stages, workflow, request, named)
        seat, standing = await _seated(stages, workflow, named)
        await _exchange(StageServer(seat, standing.definition), request, body, _stamped(request, send, seat.id))
    else:
        # A stage session outlives its connections: `terminate_session` ends it, and DELETE does not.
        allowed = "POST" if is_modern else "GET, POST"
        raise Refused(405, "method_not_allowed", f"an MCP endpoint takes {allowed}", {"Allow": allowed})


def _is_modern(request: Request) -> bool:
    version = request.headers.get(VERSION_HEADER)
    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


def _named(request: Request) -> Seat | None:
    """Whom a request is for; None if it does not say.

    Raises:
        RequestRefused: it says what can be no id.
    """
    named = request.headers.get(MCP_SESSION_HEADER)
    if named is None:
        named = request.headers.get(SESSION_HEADER) or request.query_params.get(SESSION_PARAMETER)
    if named is None:
        return None
    seat = read_seat(named)
    if seat is None:
        raise RequestRefused(session_not_found())
    return seat


async def _connected(stages: Stages, workflow: str, request: Request, named: Seat | None) -> Seat:
    """The id of a new MCP session, at a new stage session or at the one that the client goes on with."""
    if named is None:
        key = read_key(request.headers.get("idempotency-key"))
        named = Seat((await stages.initialize(workflow, key=key)).key.session)
    return Seat(named.session, secrets.token_hex(_CONNECTION_BYTES))


async def _seated(stages: Stages, workflow: str, id: Seat | None) -> tuple[StageSeat, Standing]:
    if id is None:
        detail = f"Missing {MCP_SESSION_HEADER} header; send `initialize` first, or name a session by {SESSION_HEADER}"
        raise RequestRefused(Refusal(Reason.MISSING_SESSION_HEADER, detail))
    seat = StageSeat(stages, workflow, id)
    return seat, await seat.look()


def _message(body: bytes) -> JSONObject:
    """A body's JSON object; an empty one of anything else, which the protocol's own code answers."""
    try:
        value: JSONValue = loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_handshake(body: bytes) -> bool:
    return _message(body).get("method") == "initialize"


def _handshake_first(request: Request, body: bytes) -> Answer:
    """To a request without a handshake that names no session: clients that can, shake hands then, and get one."""
    requested = request.headers[VERSION_HEADER]
    told = UnsupportedProtocolVersionErrorData(supported=list(HANDSHAKE_PROTOCOL_VERSIONS), requested=requested)
    message = f"name a stage session by the header {SESSION_HEADER} or in the address as ?{SESSION_PARAMETER}=ID, or shake hands"
    error: JSONObject = {
        "code": UNSUPPORTED_PROTOCOL_VERSION,
        "message": message,
        "data": cast(JSONObject, told.model_dump(mode="json")),
    }
    return Answer({"jsonrpc": "2.0", "id": _message(body).get("id"), "error": error}, 400)


async def _exchange(server: StageServer, request: Request, body: bytes, send: Send) -> None:
    """Have the protocol's own code answer, without a session of its own."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return unread.pop() if unread else await request.receive()

    manager = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=max(1, len(body)))
    async with manager.run():
        await manager.handle_request(request.scope, cast(Receive, receive), send)


def _stamped(request: Request, send: Send, id: Seat) -> Send:
    """Sends an answer with the MCP session's id, where the client's revision has one."""

    async def stamp(message: Message) -> None:
        if message["type"] == "http.response.start" and not _is_modern(request):
            MutableHeaders(scope=message)[MCP_SESSION_HEADER] = str(id)
        await send(message)

    return stamp
