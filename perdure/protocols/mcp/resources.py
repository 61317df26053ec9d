"""What an MCP client can read of a session. Source: MCP, Server Features, Resources."""

from __future__ import annotations

from mcp_types import Resource, ResourceTemplate

from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.machine import stage_of
from perdure.uaip.offers import offers, ways_on
from perdure.uaip.session import StageSession
from perdure.upp.json_value import JSONObject, JSONValue

MIME_TYPE = "application/json"
SESSION_URI = "uaip://session"
WORKFLOW_URI = "uaip://workflow"
_ACTIONS = "uaip://actions/"

RESOURCES = (
    Resource(
        uri=SESSION_URI,
        name="session",
        description="Where this session is: its stage, what can be called, the ways on and what they lack",
        mime_type=MIME_TYPE,
    ),
    Resource(
        uri=WORKFLOW_URI,
        name="workflow",
        description="The workflow that this session is pinned to: stages, tasks and transitions",
        mime_type=MIME_TYPE,
    ),
)
TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{_ACTIONS}{{action_id}}",
        name="action",
        description="What an action of this session answered, or that it is not done yet",
        mime_type=MIME_TYPE,
    ),
)


def action_uri(action_id: str) -> str:
    """Where the reply to an action is."""
    return f"{_ACTIONS}{action_id}"


def action_of_uri(uri: str) -> str | None:
    """The id of the action whose reply a URI names; None if it names none."""
    return uri.removeprefix(_ACTIONS) if uri.startswith(_ACTIONS) and len(uri) > len(_ACTIONS) else None


def session_document(definition: WorkflowDefinition, session: StageSession) -> JSONObject:
    """A session without the values of its state.

    Args:
        definition: the one that the session is pinned to.
        session: as it is.
    """
    stage = stage_of(definition, session)
    ways: list[JSONValue] = [
        {"stage": way.stage, "missing": list[JSONValue](way.missing)} for way in ways_on(definition, session)
    ]
    return {
        "session_id": session.id,
        "workflow": session.workflow,
        "status": session.status.value,
        "current_stage": stage.name,
        "description": stage.description,
        "terminal": stage.is_terminal,
        "tools": [offer.name for offer in offers(definition, session)],
        "ways_on": ways,
    }
