"""The MCP server of one client at one stage session, for every transport. It keeps nothing: the session is rows.

Source: Model Context Protocol 2025-11-25 and before (a handshake), and 2026-07-28 (each request for itself).
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, TypeAlias

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request

from perdure.api.doors.mcp_seat import Report, StageSeat
from perdure.errors import PerdureError, ServerError, SessionGone
from perdure.protocols.mcp.identity import call_key
from perdure.protocols.mcp.instructions import instructions
from perdure.protocols.mcp.resources import MIME_TYPE, RESOURCES, TEMPLATES
from perdure.protocols.mcp.results import refused_result
from perdure.protocols.uaip.request import RequestRefused
from perdure.store.database import is_away
from perdure.uaip.definition import WorkflowDefinition
from perdure.upp.redaction import known_secrets

logger = logging.getLogger(__name__)

Context: TypeAlias = ServerRequestContext[StageSeat, Request]


class StageServer(Server[StageSeat]):
    """Lists and calls the tools of a session's stage."""

    def __init__(self, seat: StageSeat, definition: WorkflowDefinition) -> None:
        """Serve one seat.

        Args:
            seat: the client's.
            definition: the one that its session is pinned to.
        """

        @asynccontextmanager
        async def seated(_: Server[StageSeat]) -> AsyncGenerator[StageSeat]:
            yield seat

        super().__init__(
            "perdure",
            version=version("perdure"),
            title=definition.name,
            description=definition.description or None,
            instructions=instructions(definition, seat.id.session),
            lifespan=seated,
            get_tool_input_schema=_no_headers,
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,
            on_list_resources=_list_resources,
            on_list_resource_templates=_list_templates,
            on_read_resource=_read_resource,
            on_subscriptions_listen=_listen,
        )
        self.middleware = [_tell_faults]

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """See base class: the list of tools changes."""
        changing = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changing, experimental_capabilities, extensions)


def _no_headers(_: str) -> None:
    """No argument is to be repeated in a header, so a call need not list the tools first."""


async def _tell_faults(ctx: ServerRequestContext[StageSeat, Any], call_next: CallNext) -> HandlerResult:
    """A middleware: what goes wrong becomes an error of the protocol, without secrets and without insides."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except RequestRefused as error:
        raise MCPError(INVALID_PARAMS, error.refusal.detail) from error
    except PerdureError as error:
        raise MCPError(INTERNAL_ERROR, known_secrets.text(str(error))) from error
    except Exception as error:
        if is_away(error):
            raise MCPError(INTERNAL_ERROR, "PostgreSQL does not answer; try again") from error
        logger.exception("mcp.request_failed method=%s", ctx.method)
        raise MCPError(INTERNAL_ERROR, "the server failed; its log says how") from error


async def _list_tools(ctx: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=await ctx.lifespan_context.tools())


async def _call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    seat, header = ctx.lifespan_context, None if ctx.request is None else ctx.request.headers.get("idempotency-key")
    try:
        key = call_key(seat.id, ctx.request_id, ctx.meta, header)
    except RequestRefused as error:
        return refused_result(error.refusal)
    result = await seat.call(params.name, params.arguments or {}, key=key, report=_report(ctx))
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and await seat.has_changed():
        await ctx.session.send_notification(ToolListChangedNotification(), related_request_id=ctx.request_id)
    return result


def _report(ctx: Context) -> Report | None:
    """How the caller is told that its call goes on; None if it did not ask to be."""
    if (ctx.meta or {}).get("progress_token") is None:
        return None

    async def report(passed_s: float, message: str) -> None:
        await ctx.session.report_progress(passed_s, message=message)

    return report


async def _listen(ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
    """Tell a client of 2026-07-28, which is told nothing unasked, each time that the tools change."""
    seat, wanted = ctx.lifespan_context, params.notifications.tools_list_changed is True
    meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
    tell = partial(ctx.session.send_notification, related_request_id=ctx.request_id)
    after = (await seat.look()).last_seq
    honored = SubscriptionFilter(tools_list_changed=True if wanted else None)
    agreed = SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
    await tell(SubscriptionsAcknowledgedNotification(params=agreed))
    try:
        async with aclosing(seat.changes(after)) as changes:
            async for _ in changes:
                if wanted:
                    await tell(ToolListChangedNotification(params=NotificationParams(_meta=meta)))
    except (ServerError, SessionGone):
        logger.debug("mcp.listening_ended session=%s", seat.id.session)
    return SubscriptionsListenResult(_meta=meta)


async def _list_resources(_: Context, __: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(resources=list(RESOURCES))


async def _list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))


async def _read_resource(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    document = await ctx.lifespan_context.read(params.uri)
    if document is None:
        raise MCPError(INVALID_PARAMS, f"there is no resource {params.uri!r:.200}", {"uri": params.uri})
    text = json.dumps(document, ensure_ascii=False)
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=MIME_TYPE, text=text)])
