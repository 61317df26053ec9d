"""Bodies of requests. An unknown field is refused, with the pointer to it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from perdure.api.json_types import Json, Name, Object, Objects, Text, TextOrObject
from perdure.uap.options import RunOptions
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject

WAIT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 600.0
_LONGEST_DURATION_S = 10 * 365 * 86_400.0
_SESSION = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"
_NODE = "0a4c9d6e-52a1-4c8e-8a34-8c3e7f1f2a10"
_CHECKPOINT = "5f6e2c1d-8b7a-4d3c-9e2f-1a0b9c8d7e6f"
_THREAD: JSONObject = {
    "version": "1.0.0",
    "thread_id": _NODE,
    "created_at": "2025-01-15T10:00:00.000Z",
    "updated_at": "2025-01-15T10:00:00.000Z",
    "title": "The build",
    "agents": {
        _CHECKPOINT: {
            "agent_id": _CHECKPOINT,
            "agent_identifier": "coder",
            "agent_name": "Coder",
            "created_at": "2025-01-15T10:00:00.000Z",
        }
    },
    "actions": [
        {
            "action_type": "user_message",
            "timestamp": "2025-01-15T10:00:00.000Z",
            "sequence": 1,
            "content": "Why is the build red?",
        }
    ],
}
_USER: JSONObject = {"type": "user", "content": [{"type": "text", "text": "Why is the build red?"}]}


class Body(BaseModel):
    """What all bodies have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Mode(StrEnum):
    """How the answer to a submit comes."""

    BACKGROUND = "background"
    WAIT = "wait"
    STREAM = "stream"


class Policy(StrEnum):
    """What becomes of an input while a run is active."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"


class Options(Body):
    """What one run does otherwise than its agent says."""

    instructions: Text | None = Field(default=None, description="added below the agent's system prompt")
    params: Object | None = Field(default=None, description="model parameters, merged over the agent's")
    tool_choice: TextOrObject | None = Field(default=None, description='"auto", "none", "required" or {"name": ...}')
    response_format: Object | None = Field(default=None, description='{"type": "text" | "json_object" | "json_schema"}')
    modalities: list[Text] | None = Field(default=None, description='what the answer may hold, such as ["text"]')
    client_tools: Objects | None = Field(
        default=None, description='tools that the caller runs, each {"name", "description", "parameters"}'
    )
    max_steps: int | None = Field(default=None, ge=1, le=2**31 - 1, description="steps after which the run is ended")
    max_cost: str | None = Field(
        default=None, pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$", description="a decimal above 0, as text"
    )
    max_total_tokens: int | None = Field(
        default=None, ge=1, le=2**53 - 1, description="input and output tokens, sub-agents' included"
    )
    max_duration: float | None = Field(
        default=None, gt=0, le=_LONGEST_DURATION_S, description="seconds, without those in which the run is parked"
    )
    history: Objects | None = Field(
        default=None, description="messages, oldest first, that the run sees in place of the session's thread"
    )

    def to_options(self) -> RunOptions:
        """The same for the runtime. Raises InvalidInput."""
        return RunOptions.from_json({name: getattr(self, name) for name in self.model_fields_set if _given(self, name)})


class Limits(Body):
    """What all runs of a session may use together."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"max_steps": 500, "max_cost": "20"}]})

    max_steps: int | None = Field(default=None, ge=1, le=2**31 - 1, description="of the session's own runs")
    max_total_tokens: int | None = Field(
        default=None, ge=1, le=2**53 - 1, description="input and output tokens, sub-agents' included"
    )
    max_cost: str | None = Field(
        default=None, pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$", description="a decimal above 0, as text"
    )
    max_duration: float | None = Field(
        default=None, gt=0, le=_LONGEST_DURATION_S, description="seconds, without those in which a run is parked"
    )

    def to_limits(self) -> SessionLimits:
        """The same for the runtime. Raises InvalidInput."""
        return SessionLimits.from_json(self.model_dump(exclude_none=True))


def _given(options: Options, name: str) -> bool:
    return getattr(options, name) is not None


class Answered(Body):
    """How the answer to a submit comes; part of every body that begins a run."""

    mode: Mode = Field(default=Mode.BACKGROUND, description="background: at once; wait: with the end; stream: events")
    wait_s: float = Field(
        default=WAIT_SECONDS, ge=0, le=LONGEST_WAIT_SECONDS, description="seconds that mode wait waits at most"
    )


class SubmitRun(Answered):
    """An input for a session."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"input": "Why is the build red?"},
                {"agent": "coder", "input": _USER, "mode": "wait", "wait_s": 30, "options": {"max_steps": 20}},
            ]
        }
    )

    agent: Name | None = Field(default=None, description="the agent's name; by default the session's")
    input: TextOrObject = Field(description="text, or a user's message in UPP's form")
    options: Options = Options()
    policy: Policy = Field(default=Policy.ENQUEUE, description="what becomes of it while a run is active")
    start_after: AwareDatetime | None = Field(default=None, description="the run begins no earlier")


class OpenRun(SubmitRun):
    """An input that opens a session."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"agent": "coder", "input": "Why is the build red?"},
                {"agent": "coder", "input": "Go on.", "title": "The build", "metadata": {"team": "web"}},
            ]
        }
    )

    agent: Name = Field(description="the agent's name")  # pyright: ignore[reportIncompatibleVariableOverride]
    title: Text | None = Field(default=None, description="the session's, for lists")
    metadata: Object | None = Field(default=None, description="the session's: the caller's own data")
    history: Objects | None = Field(default=None, description="what was said before, oldest first")
    limits: Limits | None = Field(default=None, description="what all the session's runs may use together")


class ResumeRun(Answered):
    """A run that goes on from a checkpoint, on a branch of its own."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"checkpoint": _CHECKPOINT}, {}]})

    checkpoint: Name | None = Field(default=None, description="by default the one that the session stands at")
    options: Options | None = Field(default=None, description="for what is left of the run")


class CreateSession(Body):
    """A session without an input."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"agent": "coder", "title": "The build"}, {"agent": "coder", "session": _SESSION}]
        }
    )

    agent: Name = Field(description="the agent's name")
    session: Name | None = Field(default=None, description="its id, a UUIDv4; drawn if left out")
    title: Text | None = Field(default=None, description="for lists")
    metadata: Object | None = Field(default=None, description="the caller's own data")
    history: Objects | None = Field(default=None, description="what was said before, oldest first")
    limits: Limits | None = Field(default=None, description="what all its runs may use together")


class PatchSession(Body):
    """What is to change of a session; what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"title": "The red build"},
                {"metadata": {"team": "web", "old": None}},
                {"limits": {"max_steps": 1000}},
            ]
        }
    )

    title: Text | None = Field(default=None, description="null takes it away")
    metadata: Object | None = Field(default=None, description="keys to set; null removes a key")
    limits: Limits | None = Field(
        default=None, description="in place of those that it has, from its next run on; null takes them away"
    )


class ImportSession(Body):
    """A session from elsewhere, or of another server."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"agent": "coder", "document": {"version": "1.0", "id": _SESSION}}]}
    )

    agent: Name = Field(description="who goes on with it")
    document: Object = Field(description="a SessionJSON, as an export gives it")
    metadata: Object | None = Field(default=None, description="added to the session's own")


class OthersText(StrEnum):
    """Whose voice other agents' words have."""

    USER = "user"
    ASSISTANT = "assistant"


class OthersTools(StrEnum):
    """What is shown of other agents' tool calls."""

    HIDE = "hide"
    SUMMARIZE = "summarize"
    SHOW = "show"


class ImportThreads(Body):
    """Threads of ThreadProtocol that become one session."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"agent": "coder", "threads": [_THREAD]}]})

    agent: Name = Field(description="who goes on with it")
    threads: Objects = Field(min_length=1, max_length=1000, description="a root, and branches of it, in any order")
    as_agent: Name | None = Field(
        default=None,
        description="the identifier of the agent in the threads that it goes on as; by default its own name",
    )
    lenient: bool = Field(default=False, description="keep what can be kept of a thread that breaks rules")
    others_text: OthersText = Field(default=OthersText.USER, description="whose voice other agents' words have")
    others_tools: OthersTools = Field(default=OthersTools.HIDE, description="what is shown of other agents' calls")
    since_join: bool = Field(default=False, description="leave out what was before the agent joined")
    session: Name | None = Field(default=None, description="a UUIDv4; drawn if left out")
    metadata: Object | None = Field(default=None, description="of the session")


class Fork(Body):
    """A new branch of the thread tree."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "second try"}, {"node": _NODE}]})

    node: Name | None = Field(default=None, description="what it goes on from; by default the current node")
    name: Text | None = Field(default=None, description="for people")
    id: Name | None = Field(default=None, description="the branch's id, a UUIDv4; drawn if left out")


class Checkout(Body):
    """A node that becomes the current one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"node": _NODE}]})

    node: Name


class Merge(Body):
    """A node that gets what another has and it lacks."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"source": _NODE, "target": _SESSION}]})

    source: Name
    target: Name


class Restore(Body):
    """A checkpoint to go back to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"checkpoint": _CHECKPOINT}]})

    checkpoint: Name


class ToolOutcome(Body):
    """The result of a tool that the caller ran."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"result": {"temperature": 21}}, {"result": "no such city", "is_error": True}]}
    )

    result: Json
    is_error: bool = False


class AnswerWait(Body):
    """The answer to what a parked run waits for; which members it has depends on the wait's kind."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"answer": {"outcome": "happened", "result": "T-1"}}, {"answer": {"result": 21}}]
        }
    )

    answer: Annotated[Object, Field(description="of an unknown outcome: outcome and perhaps result; of a client's tool: result")]  # fmt: skip


class PayRun(Body):
    """What pays for a run. Nothing of it is stored but what stands for it, without its secrets."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scheme": "token", "token": "ptok_..."}]})

    scheme: Name = Field(description="one of those that the run's wait lists")
    token: Text | None = Field(default=None, repr=False, description="of scheme token")
    proof: Text | None = Field(default=None, repr=False, description="of a payment that was made elsewhere")
    credential: TextOrObject | None = Field(default=None, repr=False, description="of AP2")
    amount: Text | None = Field(default=None, description="what is meant to be paid, a decimal as text")
    network: Text | None = Field(default=None, description="where")


class TerminateStageSession(Body):
    """The end of a stage session."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the customer has left"}, {}]})

    reason: Text = Field(default="", description="why, for its record")


class AnswerStageAction(Body):
    """The answer to what an action of a stage session waits for; which members it has depends on the wait's kind."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"answer": {"approved": True}},
                {"answer": {"approved": False}, "reason": "too expensive"},
                {"answer": {"outcome": "done", "result": "T-1"}},
            ]
        }
    )

    answer: Annotated[Object, Field(description="of an approval: approved, and perhaps arguments; of an unknown outcome: outcome and perhaps result")]  # fmt: skip
    reason: Text = Field(default="", description="why; the client is told it of a denial")


class CodecPayloads(Body):
    """Payloads of Temporal in the JSON of protobuf: metadata and data in base64."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "MjE="}]}]
        },
    )

    payloads: Annotated[list[Object], Field(max_length=10_000, description="in order; as many come back")]
