"""What an action answered, as the result of a tool's call. Source: MCP, Server Features, Tools, Calling Tools."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent

from perdure.protocols.mcp.resources import action_uri
from perdure.protocols.uaip.reply import Reply, refused
from perdure.uaip.offers import PROVIDE_STATE, TRANSITION_STAGE
from perdure.uaip.refusal import Refusal
from perdure.upp.json_value import JSONObject

_UNSETTLED = ("running", "waiting", "paused")
_FAILED = ("error", "input_required")
_ELSEWHERE = ("content", "tools")
"""Members of a reply that a client has otherwise: the text, and `tools/list`."""


def call_result(reply: Reply) -> CallToolResult:
    """The result of a tool's call: the reply's words for the model, and its machine fields.

    A refusal and a task that raised are results with `isError`, never errors of the protocol: the model is to see them.

    Args:
        reply: to the action.
    """
    body = reply.body
    told = str(body.get("content") or body.get("detail") or "")
    if body.get("status") == "input_required":
        told += f"\n\n{PROVIDE_STATE} takes those that tasks do not write; call {TRANSITION_STAGE} again then."
    if body.get("status") in _UNSETTLED:
        told += f"\n\nThe resource {action_uri(str(body['action_id']))} will have its result."
    fields: JSONObject = {name: value for name, value in body.items() if name not in _ELSEWHERE}
    return CallToolResult(
        content=[TextContent(text=told)],
        structured_content=fields,
        is_error=reply.status >= 400 or body.get("status") in _FAILED,
    )


def refused_result(refusal: Refusal) -> CallToolResult:
    """The result of a call that never became an action: the session has ended, or a key is another call's."""
    return call_result(refused(refusal))
