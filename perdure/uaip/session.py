"""The execution state of one stage session: small, plain, and whole in its JSON form, from which a new execution goes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.json_form import from_json, to_json
from perdure.upp.json_value import JSONObject, JSONValue


class SessionStatus(StrEnum):
    """OPEN takes actions; PAUSED keeps them waiting; the others are ends, after which there is no session for clients."""

    OPEN = "open"
    PAUSED = "paused"
    TERMINATED = "terminated"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class StageSession:
    """A session as the stage machine knows it. Source: UAIP 0.1, Session.

    Attributes:
        id: UUIDv4.
        workflow: its workflow's name.
        definition: sha256 of the definition that it is pinned to.
        stage: where it is.
        settled_at_ms: when its last action was done, or it was made or resumed; milliseconds since 1970.
        sizes: bytes of each key of the shared state; the values are in rows.
        version: how often the state has changed.
        status: see `SessionStatus`.
        taken: ordinal of the last action that is settled; all before it are too.
    """

    id: str
    workflow: str
    definition: str
    stage: str
    settled_at_ms: int
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    version: int = 0
    status: SessionStatus = SessionStatus.OPEN
    taken: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether it takes no action any more."""
        return self.status in (SessionStatus.TERMINATED, SessionStatus.EXPIRED)

    def to_json(self) -> JSONObject:
        """Its JSON form."""
        return to_json(self)

    @classmethod
    def from_json(cls, value: JSONValue) -> StageSession:
        """The session of its JSON form. Raises InvalidInput if it is none."""
        return from_json(cls, value, "stage session")


def begin(definition: WorkflowDefinition, id: str, at_ms: int) -> StageSession:
    """A new session, pinned to a definition, in its initial stage with an empty state.

    Args:
        definition: as it is deployed now.
        id: UUIDv4.
        at_ms: when it is made, in milliseconds since 1970; the store's clock.
    """
    return StageSession(id, definition.name, definition.sha256, definition.initial_stage, at_ms)


def pause(session: StageSession) -> StageSession:
    """Have actions wait. A session that has ended stays as it is."""
    return replace(session, status=SessionStatus.PAUSED) if session.status is SessionStatus.OPEN else session


def resume(session: StageSession, at_ms: int) -> StageSession:
    """Take actions again; its time starts anew. A session that is not paused stays as it is."""
    if session.status is not SessionStatus.PAUSED:
        return session
    return replace(session, status=SessionStatus.OPEN, settled_at_ms=max(at_ms, session.settled_at_ms))


def terminate(session: StageSession) -> StageSession:
    """End it, as an operator does: at once, paused or not. A session that has ended stays as it is."""
    return session if session.has_ended else replace(session, status=SessionStatus.TERMINATED)


def expires_at_ms(definition: WorkflowDefinition, session: StageSession) -> int | None:
    """When it ends if nothing is done until then; None if it does not: it is paused, or has ended."""
    if session.status is not SessionStatus.OPEN:
        return None
    return session.settled_at_ms + int(definition.ttl_s * 1000)


def expire(definition: WorkflowDefinition, session: StageSession, now_ms: int) -> StageSession:
    """The session at a time: ended if its time is over, else as it is."""
    due = expires_at_ms(definition, session)
    return session if due is None or now_ms < due else replace(session, status=SessionStatus.EXPIRED)
