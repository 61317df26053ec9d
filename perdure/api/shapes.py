"""Shapes of answers, for the OpenAPI document. What makes them is `perdure.runtime.shown`; a test compares the two."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

from perdure.upp.json_value import JSONObject


class Shape(BaseModel):
    """What all shapes have in common: they grow, so a program must not mind members that it does not know."""

    model_config = ConfigDict(extra="allow")


class Problem(Shape):
    """What is wrong. Source: RFC 9457."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[JSONObject] | None = None
    run: str | None = None


class Agent(Shape):
    """An agent as its last worker registered it."""

    agent: str
    agent_id: str
    task_queue: str
    spec: JSONObject
    seen_at: AwareDatetime | None


class Agents(Shape):
    """All agents."""

    agents: list[Agent]


class Lease(Shape):
    """A permit that a run holds or waits for."""

    permit: str
    session: str
    run: str
    worker: str
    state: str
    asked_at: AwareDatetime
    held_at: AwareDatetime | None
    expires_at: AwareDatetime


class SharedLimit(Shape):
    """A limit that all workers share; `leases` are those of the caller's tenant."""

    name: str
    owner: str
    requests_per_second: float | None
    burst: int | None
    max_concurrent: int | None
    tokens: float | None
    held: int
    waiting: int
    refused_in_a_row: int
    blocked_until: AwareDatetime | None
    leases: list[Lease]


class SharedLimits(Shape):
    """The limits that all workers share, from their first request on."""

    limits: list[SharedLimit]


class Session(Shape):
    """A session."""

    session: str
    agent: str
    agent_id: str
    status: str
    paused: bool
    active_run: str | None
    title: str | None
    metadata: JSONObject
    current_node: str | None
    run_count: int
    step_count: int
    usage: JSONObject
    limits: JSONObject | None
    last_event: int
    late_results: int
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Sessions(Shape):
    """A page of sessions, newest first."""

    sessions: list[Session]
    next: str | None


class Run(Shape):
    """A run; `turn`, UPP's, is there once it is completed and the request asks for one run."""

    run: str
    session: str
    ordinal: int
    status: str
    steps: int
    model_calls: int
    usage: JSONObject | None
    error: JSONObject | None
    first_event: int | None
    last_event: int | None
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    turn: JSONObject | None = None


class Runs(Shape):
    """A page of runs, newest first."""

    runs: list[Run]
    next: str | None


class Submitted(Shape):
    """An input that is stored and will be run whatever happens."""

    run: str
    session: str
    ordinal: int
    status: str
    repeated: bool
    paused: bool
    action: str
    target: str | None
    place: int


class Changed(Shape):
    """A change of the thread tree that is made: the node that it made or went to, and the current one from now on."""

    kind: str
    input: int
    node: str | None = None
    current: str | None = None


class Recorded(Shape):
    """What will be done as soon as a worker comes to it."""

    state: Literal["recorded"]
    run: str | None = None
    input: int | None = None


class Controlled(Shape):
    """The state that a control has reached.

    `event` is the number of the event that says so, `in_flight` what ends by itself though the session is paused, and
    `withdrawn` the runs of queued inputs that were taken back.
    """

    state: str
    event: int | None
    run: str | None
    in_flight: list[JSONObject]
    withdrawn: list[str]


class Wait(Shape):
    """What a parked run waits for."""

    wait: str
    session: str
    root: str
    path: str
    run: str
    kind: str
    asked: JSONObject
    asked_at: AwareDatetime
    args_sha256: str | None
    expires_at: AwareDatetime | None


class Waits(Shape):
    """A page of open waits, oldest first."""

    waits: list[Wait]
    next: str | None


class AnsweredWait(Wait):
    """A wait with its answer."""

    answer: JSONObject
    answered_by: str


class PaidRun(Shape):
    """A run that goes on, since it was paid for."""

    run: str
    scheme: str


class State(Shape):
    """What a session does now: its active run, the next inputs, and what is waited for."""

    session: str
    status: str
    paused: bool
    current_node: str | None
    checkpoint: str | None
    run: Run | None
    queued: list[Run]
    waits: list[Wait]
    last_event: int


class Imported(Shape):
    """A session that came from elsewhere."""

    session: str


class CodecPayloads(Shape):
    """Payloads of Temporal in the JSON of protobuf; empty lists are left out."""

    payloads: list[JSONObject] = []


class Health(Shape):
    """That the process lives."""

    status: Literal["ok"]


class Readiness(Shape):
    """Whether both servers answer."""

    ready: bool
    temporal: str
    postgres: str
    revision: str
