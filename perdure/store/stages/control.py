"""Pausing, resuming and terminating a stage session, each control applied once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import select

from perdure.store.database import Database
from perdure.store.stages.held import HeldSession, hold, keep, let_expire
from perdure.store.stages.settling import TERMINATED, answer_open
from perdure.store.tables import events
from perdure.uaip.session import StageSession, pause, resume, terminate
from perdure.uap.session_key import SessionKey
from perdure.upp.redaction import known_secrets

ControlKind: TypeAlias = Literal["pause", "resume", "terminate"]
PAUSED = "stage.paused"
RESUMED = "stage.resumed"


@dataclass(frozen=True, slots=True)
class ControlledSession:
    """A session after a control.

    Attributes:
        session: None if there is none.
        changed: the control has changed it, now.
        news: something was written.
    """

    session: StageSession | None
    changed: bool
    news: bool


async def control_session(
    database: Database, key: SessionKey, kind: ControlKind, *, control: str, reason: str = ""
) -> ControlledSession:
    """Pause, resume or terminate a session. One that has ended, or is so already, stays as it is.

    A task that runs is not waited for: what it does while the session is paused counts, and what it does after the end
    does not. All that is open when it is terminated is answered that there is no such session.

    Args:
        database: the store.
        key: the session.
        kind: what is to be done.
        control: a unique name of this control: it changes the session once.
        reason: why it is terminated; secrets that this process knows are taken out.
    """
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        if held is None:
            return ControlledSession(None, changed=False, news=False)
        if await let_expire(held):
            return ControlledSession(held.session, changed=False, news=True)
        note = f"control:{control}"
        after = _controlled(held, kind)
        if after == held.session or await _was_applied(held, note):
            return ControlledSession(held.session, changed=False, news=False)
        held.session = after
        if kind == "terminate":
            said = known_secrets.text(reason)
            held.tell(TERMINATED, {"reason": said}, note=note)
            await answer_open(held)
            await keep(held, held.session, reason=said)
        else:
            held.tell(PAUSED if kind == "pause" else RESUMED, {}, note=note)
            await keep(held, held.session)
        return ControlledSession(held.session, changed=True, news=True)


def _controlled(held: HeldSession, kind: ControlKind) -> StageSession:
    match kind:
        case "pause":
            return pause(held.session)
        case "resume":
            return resume(held.session, held.now_ms)
        case "terminate":
            return terminate(held.session)


async def _was_applied(held: HeldSession, note: str) -> bool:
    own = (events.c.tenant_id == held.key.tenant, events.c.session_id == held.key.session, events.c.note == note)
    return await held.connection.scalar(select(events.c.seq).where(*own)) is not None
