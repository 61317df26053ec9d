"""What can be called where a session is, as MCP's tools. Source: MCP, Server Features, Tools."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_types import Tool, ToolAnnotations

from perdure.uaip.definition import TaskSpec, WorkflowDefinition
from perdure.uaip.machine import stage_of
from perdure.uaip.offers import PROVIDE_STATE, TERMINATE_SESSION, TRANSITION_STAGE, Offer, WayOn, offers, ways_on
from perdure.uaip.session import StageSession
from perdure.upp.json_value import JSONObject

_HINTS = {
    TRANSITION_STAGE: ToolAnnotations(read_only_hint=False, destructive_hint=False),
    PROVIDE_STATE: ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True),
    TERMINATE_SESSION: ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True),
}


def offered(definition: WorkflowDefinition, session: StageSession) -> tuple[Offer, ...]:
    """What is listed now: `provide_state` too while a stage that can be gone to lacks what clients may write.

    Two listings that are equal list the same tools, so a client is told of a change when they are not.

    Args:
        definition: the one that the session is pinned to.
        session: as it is.
    """
    lacking = [_lacking(definition, way) for way in ways_on(definition, session)]
    wanted = tuple(way for way in lacking if way.missing)
    asking = (_asking(wanted),) if wanted else ()
    return (*offers(definition, session), *asking)


def tools(definition: WorkflowDefinition, session: StageSession) -> list[Tool]:
    """The answer to `tools/list`.

    Args:
        definition: the one that the session is pinned to.
        session: as it is.
    """
    stage = stage_of(definition, session)
    return [_tool(offer, stage.task(offer.name)) for offer in offered(definition, session)]


def _tool(offer: Offer, task: TaskSpec | None) -> Tool:
    hints = _HINTS[offer.name] if task is None else _task_hints(task)
    return Tool(name=offer.name, description=offer.description, input_schema=offer.parameters, annotations=hints)


def _task_hints(task: TaskSpec) -> ToolAnnotations:
    """What the task's effect class says to whoever decides on a call. An HTTP call reaches out of this system."""
    return ToolAnnotations(
        read_only_hint=task.effect == "none",
        idempotent_hint=task.effect in ("none", "idempotent"),
        open_world_hint=True if task.kind == "http" else None,
    )


def _lacking(definition: WorkflowDefinition, way: WayOn) -> WayOn:
    """A way with those of its missing keys that clients may write."""
    allowed = definition.inputs
    return WayOn(way.stage, tuple(key for key in way.missing if allowed is None or key in allowed))


def _asking(ways: Sequence[WayOn]) -> Offer:
    """`provide_state` before anything was refused: no single key is required, since tasks may write some of them."""
    properties: JSONObject = {key: {"description": f"The value of {key!r}"} for way in ways for key in way.missing}
    needs = "; ".join(f"{way.stage} needs {', '.join(way.missing)}" for way in ways)
    parameters: JSONObject = {"type": "object", "properties": properties, "minProperties": 1}
    return Offer(PROVIDE_STATE, f"Provide what the next stages need: {needs}", parameters)
