"""What stage sessions, their actions and waits look like to who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from sqlalchemy import Row

from perdure.protocols.uaip.reply import Reply
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.session import SessionStatus, StageSession
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads

ActionState: TypeAlias = Literal["queued", "running", "waiting", "settled"]
WaitKind: TypeAlias = Literal["approval", "outcome"]


@dataclass(frozen=True, slots=True)
class StageSessionRow:
    """A stage session.

    Attributes:
        key: its tenant and id.
        session: as the stage machine knows it. One whose time is over reads as expired.
        task_queue: of the workers that serve its workflow now; empty if none ever has.
        created_at: when it was opened.
        updated_at: when an action was last accepted or settled, or it was paused, resumed or ended.
        expires_at: when it ends if nothing is done until then; None if it is paused or has ended.
        ended_at: when it ended, or None.
        ended_reason: what was said of why it was terminated; empty if nothing was.
        open_actions: how many are not settled.
        last_seq: number of its last event.
    """

    key: SessionKey
    session: StageSession
    task_queue: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None
    ended_reason: str
    open_actions: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class ActionWait:
    """What an action waits for a person to say.

    Attributes:
        kind: "approval" (may it run?) or "outcome" (did a try of which nobody knows have its effect?).
        asked_at: when.
        expires_at: when an approval is given up; None for never.
        answer: {"approved", "arguments"?}, or {"outcome": "done" or "not_done", "result"?}; None if there is none.
        answered_by: who; empty if nobody has.
        reason: what they said of why.
        answered_at: when, or None.
    """

    kind: WaitKind
    asked_at: datetime
    expires_at: datetime | None = None
    answer: JSONObject | None = None
    answered_by: str = ""
    reason: str = ""
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action.

    Attributes:
        key: its session.
        id: derived from the session and the ordinal.
        ordinal: its place in the session's order, from 1.
        action: what was asked.
        idempotency_key: what it came under, or None.
        state: "queued", "running" (a task was taken), "waiting" (for a person) or "settled".
        stage: where the session was when it was taken; empty before.
        to_stage: where it went, if it was a move that was made.
        reply: what is answered, once it is settled.
        attempt: how many tries of its task have begun.
        wait: the last that it waited or waits for, or None.
        accepted_at: when it was stored.
        started_at: when it was taken, if it has a task.
        settled_at: when it was settled.
        sha256: of what was asked, as it came.
        try_id: of the last try that began, or None.
    """

    key: SessionKey
    id: str
    ordinal: int
    action: Action
    idempotency_key: str | None
    state: ActionState
    stage: str
    to_stage: str | None
    reply: Reply | None
    attempt: int
    wait: ActionWait | None
    accepted_at: datetime
    started_at: datetime | None
    settled_at: datetime | None
    sha256: str
    try_id: str | None = None

    @property
    def told(self) -> JSONObject:
        """What its events say of it."""
        return {
            "action_id": self.id, "ordinal": self.ordinal, "action": self.action.kind.value, "name": self.action.name,
        }  # fmt: skip

    @property
    def status(self) -> str:
        """The reply's word, as "ok" or "error"; empty before it is settled, and if the session had ended."""
        return "" if self.reply is None else str(self.reply.body.get("status", ""))


def stage_key(tenant: str, session: str) -> SessionKey | None:
    """The key of a session that a client names, or None if no stage session can have that id."""
    lowered = session.strip().lower() if len(session) < 64 else ""
    return SessionKey(tenant, lowered) if is_uuid4(lowered) else None


def action_id(session: str, ordinal: int) -> str:
    """The id of an action, the same for whoever asks."""
    return derive_id(session, "action", ordinal)


def at_ms(at: datetime) -> int:
    """A time of the store as the stage machine counts, in milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def session_of(row: Row[Any]) -> StageSession:
    """What a row of `stage_sessions` says, whatever the time is."""
    return StageSession(
        id=row.id,
        workflow=row.workflow,
        definition=row.definition,
        stage=row.stage,
        settled_at_ms=row.settled_at_ms,
        sizes=row.sizes,
        version=row.version,
        status=SessionStatus(row.status),
        taken=row.taken,
    )


def body_of(action: Action) -> bytes:
    """What an action carries, as its row keeps it."""
    carried: dict[str, JSONValue] = {
        "arguments": action.arguments, "updates": action.updates, "reason": action.reason,
    }  # fmt: skip
    return dumps({name: value for name, value in carried.items() if value})


def action_of(row: Row[Any]) -> Action:
    """The action of a row of `stage_actions`."""
    body = cast("dict[str, Any]", loads(row.body))
    return Action(
        ActionKind(row.kind), row.name, body.get("arguments", {}), body.get("updates", {}), body.get("reason", "")
    )


def action_row(row: Row[Any], waits: Mapping[tuple[str, int], ActionWait]) -> ActionRow:
    """What a row of `stage_actions` says.

    Args:
        row: with all columns.
        waits: the last wait of each action that had one, by session and ordinal.
    """
    reply = None if row.reply is None else Reply(row.http, cast(JSONObject, loads(row.reply)))
    return ActionRow(
        key=SessionKey(row.tenant_id, row.session_id),
        id=row.id,
        ordinal=row.ordinal,
        action=action_of(row),
        idempotency_key=row.idempotency_key,
        state=row.state,
        stage=row.stage,
        to_stage=row.to_stage,
        reply=reply,
        attempt=row.attempt,
        wait=waits.get((row.session_id, row.ordinal)),
        accepted_at=row.accepted_at,
        started_at=row.started_at,
        settled_at=row.settled_at,
        sha256=row.sha256,
        try_id=row.try_id,
    )


def wait_of(row: Row[Any]) -> ActionWait:
    """What a row of `stage_waits` says."""
    return ActionWait(
        row.kind, row.asked_at, row.expires_at, row.answer, row.answered_by or "", row.reason or "", row.answered_at
    )
