"""Shapes of answers about stage sessions, for the OpenAPI document. `perdure.runtime.shown_stages` makes what they show."""

from __future__ import annotations

from pydantic import AwareDatetime

from perdure.api.shapes import Shape
from perdure.upp.json_value import JSONObject


class StageSession(Shape):
    """A session of a stage workflow."""

    session: str
    workflow: str
    definition: str
    stage: str
    status: str
    actions: int
    open_actions: int
    state_version: int
    state_bytes: int
    last_event: int
    created_at: AwareDatetime
    updated_at: AwareDatetime
    expires_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    ended_reason: str


class StageSessions(Shape):
    """A page of stage sessions, newest first."""

    stage_sessions: list[StageSession]
    next: str | None


class StageTool(Shape):
    """Something that can be called now."""

    name: str
    description: str
    input_schema: JSONObject


class StageWay(Shape):
    """A stage that can be gone to, and the keys of the state that it still needs."""

    stage: str
    missing: list[str]


class StageWaitState(Shape):
    """What a person is asked, and what was answered."""

    kind: str
    asked_at: AwareDatetime
    expires_at: AwareDatetime | None
    answer: JSONObject | None
    answered_by: str
    answer_reason: str
    answered_at: AwareDatetime | None


class StageWait(StageWaitState):
    """An action that waits for a person."""

    session: str
    action_id: str
    stage: str
    task: str
    arguments: JSONObject


class StageWaits(Shape):
    """A page of the actions that wait for a person, oldest first."""

    waits: list[StageWait]
    next: str | None


class StageAction(Shape):
    """An action of a stage session; `status` and `http` are its reply's once it is settled."""

    action_id: str
    session: str
    ordinal: int
    action: str
    name: str
    arguments: JSONObject
    updates: JSONObject
    reason: str
    state: str
    status: str
    http: int | None
    stage: str
    to_stage: str | None
    attempt: int
    child: str | None
    wait: StageWaitState | None
    accepted_at: AwareDatetime
    started_at: AwareDatetime | None
    settled_at: AwareDatetime | None


class StageView(StageSession):
    """A stage session with its state, and what can be done in it now."""

    state: JSONObject
    tools: list[StageTool]
    ways_on: list[StageWay]
    in_hand: StageAction | None
    wait: StageWait | None


class StageHistory(Shape):
    """A page of a session's actions, in their order."""

    actions: list[StageAction]
    next: str | None


class StageReply(StageAction):
    """An action with what its client is told now: the body of `POST /execute`."""

    reply: JSONObject


class StageControlled(Shape):
    """The state that a control has reached, and the session as it stands."""

    state: str
    stage_session: StageSession
