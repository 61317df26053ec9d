"""What can be done now in a session: its stage's tasks and the ways on, as tools for a model or an MCP client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.definition import StageSpec, WorkflowDefinition
from perdure.uaip.machine import missing_keys, stage_of
from perdure.uaip.session import StageSession
from perdure.upp.json_value import JSONObject, JSONValue

TRANSITION_STAGE = "transition_stage"
PROVIDE_STATE = "provide_state"
TERMINATE_SESSION = "terminate_session"
RESERVED_NAMES = (TRANSITION_STAGE, PROVIDE_STATE, TERMINATE_SESSION)
"""The tools that every stage session has besides its tasks; a task of such a name could not be called."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that can be called: a task, or one of the tools that every session has.

    Attributes:
        name: what it is called by.
        description: for a model.
        parameters: JSON Schema of type object.
    """

    name: str
    description: str
    parameters: JSONObject


@dataclass(frozen=True, slots=True)
class WayOn:
    """A stage that the graph leads to from here.

    Attributes:
        stage: its name.
        missing: the prerequisites that the state does not have yet; none means that it can be entered now.
    """

    stage: str
    missing: tuple[str, ...]


def offers(definition: WorkflowDefinition, session: StageSession) -> tuple[Offer, ...]:
    """The tools of a session where it is: tasks as declared, `transition_stage` if a way leads on, `terminate_session`."""
    if session.has_ended:
        return ()
    stage = stage_of(definition, session)
    tasks = tuple(Offer(task.name, task.description, task.parameters) for task in stage.tasks)
    moves = () if stage.is_terminal else (_transition(definition, stage),)
    return (*tasks, *moves, _TERMINATE)


def ways_on(definition: WorkflowDefinition, session: StageSession) -> tuple[WayOn, ...]:
    """Where the session can go from here, and what each stage still needs."""
    if session.has_ended:
        return ()
    found: list[WayOn] = []
    for edge in stage_of(definition, session).transitions:
        target = definition.stage(edge.target)
        if target is not None:
            found.append(WayOn(edge.target, tuple(missing_keys(target, session.sizes))))
    return tuple(found)


def provide_state(missing: Sequence[str]) -> Offer:
    """The tool that asks for keys of the state; each may be any JSON."""
    properties: JSONObject = {key: {"description": f"The value of {key!r}"} for key in missing}
    return Offer(
        PROVIDE_STATE,
        "Provide what the next stage needs",
        {"type": "object", "properties": properties, "required": list[JSONValue](missing)},
    )


def action_of(name: str, arguments: JSONObject) -> Action:
    """The action that a call of an offer stands for.

    Args:
        name: the offer's; whatever is no tool of every session is taken for a task.
        arguments: as the model wrote them.

    Raises:
        InvalidInput: `target_stage` is no text.
    """
    if name == TRANSITION_STAGE:
        target = arguments.get("target_stage")
        if not isinstance(target, str):
            raise InvalidInput(f"{TRANSITION_STAGE} needs 'target_stage', the name of a stage")
        return Action(ActionKind.STAGE_TRANSITION, target)
    if name == PROVIDE_STATE:
        return Action(ActionKind.STATE_INPUT, updates=arguments)
    if name == TERMINATE_SESSION:
        reason = arguments.get("reason")
        return Action(ActionKind.TERMINATE_SESSION, reason=reason if isinstance(reason, str) else "")
    return Action(ActionKind.METHOD_CALL, name, arguments=arguments)


def _transition(definition: WorkflowDefinition, stage: StageSpec) -> Offer:
    names = [edge.target for edge in stage.transitions]
    described = [f"{name}: {_described(definition, name)}" for name in names]
    parameters: JSONObject = {
        "type": "object",
        "properties": {
            "target_stage": {
                "type": "string",
                "enum": list[JSONValue](names),
                "description": f"Where to go. {'; '.join(described)}",
            }
        },
        "required": ["target_stage"],
        "additionalProperties": False,
    }
    description = f"Move to a different stage in the workflow. Available stages: {', '.join(names)}"
    return Offer(TRANSITION_STAGE, description, parameters)


def _described(definition: WorkflowDefinition, name: str) -> str:
    stage = definition.stage(name)
    if stage is None:
        return ""
    needs = f" (needs {', '.join(stage.prerequisites)})" if stage.prerequisites else ""
    return f"{stage.description or 'no description'}{needs}"


_TERMINATE = Offer(
    TERMINATE_SESSION,
    "End this session",
    {
        "type": "object",
        "properties": {"reason": {"type": "string", "description": "Why it is ended"}},
        "additionalProperties": False,
    },
)
