"""MCP over the standard streams of this process: one client, at one stage session. Source: MCP, Transports, stdio."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server

from perdure.api.doors.mcp_seat import StageSeat, Standing
from perdure.api.doors.mcp_server import StageServer
from perdure.errors import ServerError, SessionGone

_INITIALIZED = "notifications/initialized"


async def serve_stdio(seat: StageSeat, standing: Standing) -> None:
    """Serve until the client closes our standard input. What is under way then goes on without it.

    Args:
        seat: the client's.
        standing: of its session now.
    """
    server, outlet = StageServer(seat, standing.definition), _Outlet()
    server.middleware.append(outlet.watch)
    telling = asyncio.create_task(_tell(seat, outlet, standing.last_seq), name="tell changes")
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


@dataclass(slots=True)
class _Outlet:
    """Where a client that shook hands is told what it did not ask for.

    Attributes:
        session: to send by; None before it shook hands, and of a client of 2026-07-28, which asks for news itself.
        is_there: set once there is one.
    """

    session: ServerSession | None = None
    is_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, ctx: ServerRequestContext[StageSeat, Any], call_next: CallNext) -> HandlerResult:
        """A middleware that sees the client shake hands."""
        if ctx.method == _INITIALIZED:
            self.session = ctx.session
            self.is_there.set()
        return await call_next(ctx)


async def _tell(seat: StageSeat, outlet: _Outlet, after: int) -> None:
    """Tell the client that its tools have changed when somebody else acted; of its own calls it is told with each."""
    await outlet.is_there.wait()
    with contextlib.suppress(ServerError, SessionGone):
        async with contextlib.aclosing(seat.changes(after)) as changes:
            async for _ in changes:
                if outlet.session is not None:
                    await outlet.session.send_tool_list_changed()
