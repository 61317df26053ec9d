"""UAMP over WebSocket: one event in each text frame, any number of sessions on one connection. Source: UAMP 1.0, section 13.1.

A socket that breaks ends nothing: runs go on, and session.create with the session's id goes on where the client was.
"""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, WebSocket

from perdure.api.authentication import Authenticates
from perdure.api.doors.uamp.desk import Desk
from perdure.api.doors.uamp.line import Line
from perdure.api.problems import Refused, fault_of, problem
from perdure.errors import PerdureError

PATH = "/ws"

router = APIRouter(tags=["uamp"])


@router.websocket(PATH)
async def serve(socket: WebSocket) -> None:
    """Hold a client's connection; see the module. One that shows no credential sends a token in session.create."""
    desk = cast(Desk, socket.app.state.uamp)
    authenticator = cast(Authenticates, socket.app.state.authenticator)
    try:
        principal = await authenticator.recognize(socket)
    except (Refused, PerdureError) as error:
        await socket.send_denial_response(problem(fault_of(error)))
        return
    await socket.accept()
    await Line(desk, socket, principal).serve()
