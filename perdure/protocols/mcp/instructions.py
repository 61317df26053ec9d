"""What a server tells a client of itself when they meet. Source: MCP, Lifecycle, Initialization."""

from __future__ import annotations

from perdure.protocols.mcp.resources import SESSION_URI
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.offers import TRANSITION_STAGE


def instructions(definition: WorkflowDefinition, session_id: str) -> str:
    """How to use the tools, and by which id the session is gone on with later.

    Args:
        definition: the one that the session is pinned to.
        session_id: the stage session's.
    """
    told = f"{definition.name}: {definition.description}" if definition.description else definition.name
    return (
        f"{told}\n\n"
        "This is a workflow of stages. The tools are those of the current stage, and change when it does: list them again "
        f"after {TRANSITION_STAGE}. A tool of another stage is refused. {SESSION_URI} says where the session is.\n\n"
        f"Stage session: {session_id}. It outlives this connection; name it to go on with it."
    )
