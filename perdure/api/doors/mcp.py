"""MCP over streamable HTTP at `/mcp/{workflow}`: who calls, and whether this process can speak it at all.

The rest needs the extra `mcp` and is imported with the first request.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from perdure.api.access import Caller, Runner
from perdure.api.problems import Refused
from perdure.protocols.mcp import extra

PREFIX = "/mcp/"

_HTTP = "perdure.api.doors.mcp_http"

router = APIRouter(include_in_schema=False)


@router.api_route(f"{PREFIX}{{workflow}}", methods=["GET", "POST", "DELETE"], operation_id="mcp")
async def mcp(request: Request, workflow: str, caller: Runner) -> Response:
    """Serve a workflow of the caller's tenant."""
    if not extra.is_there():
        raise Refused(501, "mcp_missing", extra.MISSING)
    return _Exchange(workflow, caller)


class _Exchange(Response):
    """Answers as it goes, as the protocol's own code does."""

    def __init__(self, workflow: str, caller: Caller) -> None:
        super().__init__()
        self._workflow = workflow
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        http = await asyncio.to_thread(import_module, _HTTP)
        await http.serve(self._caller, self._workflow, Request(scope, receive), send)
