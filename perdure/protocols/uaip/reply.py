"""What `/execute` answers: status and body of a settled action, of one that is not done yet, and of a refused request.

The body of an action is the same whoever asks for it, so that an idempotency key gives it again.
Source: UAIP 0.1, POST /execute and Errors; `content` and `tools` are the first UAIP server's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from perdure.protocols.uaip.models import ErrorBody, ExecuteResponse, ReplyStatus, TaskFailure, ToolSchema, tidy
from perdure.uaip import words
from perdure.uaip.action import Action
from perdure.uaip.decision import Greet, Move, Refused, RunTask, Settling, TakeInput, Terminate
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.machine import stage_of
from perdure.uaip.offers import Offer, offers, provide_state
from perdure.uaip.refusal import Reason, Refusal
from perdure.uaip.session import StageSession
from perdure.uaip.task_outcome import TaskRun
from perdure.upp.json_value import JSONObject, well_formed

_WORDS = {
    "running": "The action is still running. Its result can be asked for later, with the same idempotency key.",
    "waiting": "The action waits for a person's approval. Its result can be asked for later, with the same idempotency key.",
    "paused": "The session is paused. The action is kept, and done when the session is resumed.",
}
_REFUSED_ACTION = 422
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent.

    Attributes:
        status: of HTTP.
        body: JSON.
    """

    status: int
    body: JSONObject

    def as_reference(self) -> Reply:
        """The same for a client of the first UAIP server, which takes every other status than 200 for its end.

        A refusal of the stage machine comes as 200; what the request itself lacks stays 4xx.
        """
        return Reply(200, self.body) if self.status == _REFUSED_ACTION and "status" in self.body else self


def settled(
    definition: WorkflowDefinition,
    session: StageSession,
    action: Action,
    action_id: str,
    decision: Settling,
    run: TaskRun | None = None,
) -> Reply:
    """The reply to an action that is settled.

    Args:
        definition: the one that the session is pinned to.
        session: after the action.
        action: as it was sent.
        action_id: of its row.
        decision: of the stage machine.
        run: of a task that was to be run.
    """
    reply = _Replying(definition, session, action, action_id)
    match decision:
        case Refused(refusal):
            return reply.refused(refusal)
        case RunTask():
            return reply.task(run or TaskRun())
        case Move(source, target, _):
            return reply.ok(words.moved(source, target), {"from_stage": source, "to_stage": target})
        case TakeInput(change):
            return reply.ok(words.INPUT_TAKEN, {"updated": list(change.sizes)})
        case Terminate():
            return Reply(200, reply.body("terminated", words.TERMINATED))
        case Greet():
            return reply.ok(words.GREETED)


def unsettled(
    definition: WorkflowDefinition,
    session: StageSession,
    action: Action,
    action_id: str,
    status: Literal["running", "waiting", "paused"],
) -> Reply:
    """The reply to an action that takes longer than its caller waits."""
    reply = _Replying(definition, session, action, action_id)
    named = {"task": action.name} if action.kind == "method_call" else {}
    return Reply(200, reply.body(status, _WORDS[status], named))


def refused(refusal: Refusal) -> Reply:
    """The reply to a request that never became an action of a session."""
    return Reply(refusal.status, tidy(ErrorBody.model_validate({**refusal.more, "detail": refusal.detail}).to_json()))


@dataclass(frozen=True, slots=True)
class _Replying:
    definition: WorkflowDefinition
    session: StageSession
    action: Action
    action_id: str

    def ok(self, content: str, more: Mapping[str, object] = _NOTHING) -> Reply:
        return Reply(200, self.body("ok", content, more))

    def task(self, run: TaskRun) -> Reply:
        name = self.action.name
        if run.refusal is not None:
            return self.refused(run.refusal)
        if run.error is not None:
            failure = TaskFailure(type=run.error.type, message=str(well_formed(run.error.message)))
            return Reply(200, self.body("error", words.failed(run.error.message), {"task": name, "error": failure}))
        content = words.task_done(name, run.result)
        return Reply(200, self.body("ok", content, {"task": name, "result": well_formed(run.result)}))

    def refused(self, refusal: Refusal) -> Reply:
        """A refusal that helps a model on: in words, with what can be called now."""
        if refusal.status != _REFUSED_ACTION:
            return refused(refusal)
        missing = words.texts(refusal.more.get("missing"))
        lacks = refusal.reason is Reason.MISSING_PREREQUISITES
        body = self.body(
            "input_required" if lacks else "error",
            words.missing(refusal.detail, missing) if lacks else words.refused(refusal),
            tools=_tools((provide_state(missing),)) if lacks else None,
        )
        return Reply(refusal.status, tidy({"detail": refusal.detail, **body, **refusal.more}))

    def body(
        self,
        status: ReplyStatus,
        content: str,
        more: Mapping[str, object] = _NOTHING,
        tools: list[ToolSchema] | None = None,
    ) -> JSONObject:
        stage = stage_of(self.definition, self.session)
        ended = self.session.has_ended
        return ExecuteResponse.model_validate(
            {
                "status": status,
                "action": self.action.kind.value,
                "action_id": self.action_id,
                "session_id": self.session.id,
                "workflow": self.session.workflow,
                "current_stage": stage.name,
                "terminal": stage.is_terminal,
                "content": well_formed(content),
                "tools": _tools(offers(self.definition, self.session)) if tools is None else tools,
                "transitions": [] if ended else [edge.target for edge in stage.transitions],
                **more,
            }
        ).to_json()


def _tools(given: Sequence[Offer]) -> list[ToolSchema]:
    return [
        ToolSchema(name=offer.name, description=offer.description, input_schema=offer.parameters) for offer in given
    ]
