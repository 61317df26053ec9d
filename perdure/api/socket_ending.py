"""With what code a WebSocket of ours is closed, and why."""

from __future__ import annotations

import asyncio
import logging

from starlette.websockets import WebSocketDisconnect

from perdure.errors import ServerError

logger = logging.getLogger(__name__)

_GOING_AWAY, _FAILED, _RESTARTING = 1001, 1011, 1012


class Closed(Exception):
    """The socket is to be closed with a code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def ending_of(
    door: str, hearing: asyncio.Task[None], failure: asyncio.Future[None], *, is_leaving: bool
) -> tuple[int, str]:
    """With what code a socket is closed, and why; a fault of ours is logged.

    Args:
        door: whose socket it is, for the log.
        hearing: takes what the client sends.
        failure: fails with what else goes wrong.
        is_leaving: whether the process ends.
    """
    if is_leaving:
        return _RESTARTING, "the server restarts; come again"
    for ended in (hearing, failure):
        error = ended.exception() if ended.done() and not ended.cancelled() else None
        match error:
            case None | TimeoutError() | OSError() | WebSocketDisconnect():
                continue
            case Closed():
                return error.code, error.reason
            case ServerError():
                return _RESTARTING, str(error)
            case _:
                logger.error("%s.socket_failed", door, exc_info=error)
                return _FAILED, "the server failed; come again"
    return _GOING_AWAY, "closed"
