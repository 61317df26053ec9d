"""Accepting an action: it is a row before anything else happens, and the row is the acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, update

from perdure.errors import QueueFull
from perdure.protocols.uaip.request import RequestRefused
from perdure.store.database import Database
from perdure.store.inputs import check_key
from perdure.store.policies import MAX_QUEUED
from perdure.store.sealing import seal_in
from perdure.store.stages.actions import one_action
from perdure.store.stages.held import HeldSession, hold, keep
from perdure.store.stages.rows import ActionRow, StageSessionRow, action_id, body_of
from perdure.store.stages.settling import ACCEPTED, clean_action, settle
from perdure.store.tables import session_heads, stage_actions
from perdure.uaip.action import Action, KeyUse, key_conflict, key_use
from perdure.uaip.decision import Refused
from perdure.uaip.machine import decide
from perdure.uaip.refusal import session_not_found
from perdure.uap.session_key import SessionKey


@dataclass(frozen=True, slots=True)
class AcceptedAction:
    """An action that is stored.

    Attributes:
        row: the action, as it is now.
        session: as it was before; its `last_seq` is that of the last event before this action's own.
        repeated: it was known under its idempotency key.
        wake: the session's workflow is to be told.
        news: something was written that viewers of the session are to be told of.
    """

    row: ActionRow
    session: StageSessionRow
    repeated: bool
    wake: bool
    news: bool


async def accept_action(
    database: Database, key: SessionKey, action: Action, *, idempotency_key: str | None = None
) -> AcceptedAction:
    """Store an action. One that is refused as the session is, with nothing before it, is settled at once.

    Args:
        database: the store.
        key: the session.
        action: as it was sent; secrets that this process knows are taken out.
        idempotency_key: the same again is the same action, also when the session has ended since.

    Raises:
        InvalidInput: an idempotency key that cannot be used.
        RequestRefused: there is no such session, or it has ended; or the key was used with another action.
        QueueFull: as many actions are open as may be.
    """
    if idempotency_key is not None:
        check_key(idempotency_key)
    async with database.transaction(key) as connection:
        held = await hold(connection, key)
        if held is None:
            raise RequestRefused(session_not_found())
        known = await _known(held, action, idempotency_key)
        if known is not None:
            return AcceptedAction(known, held.row, repeated=True, wake=known.state == "queued", news=False)
        if held.session.has_ended:
            raise RequestRefused(session_not_found())
        if held.open_actions >= MAX_QUEUED:
            raise QueueFull(
                f"session {key.session} has {held.open_actions} actions that are not settled; wait for one of them"
            )
        return await _accept(held, action, idempotency_key)


async def _known(held: HeldSession, action: Action, idempotency_key: str | None) -> ActionRow | None:
    """The action that came under the key before. Raises RequestRefused if it was another."""
    if idempotency_key is None:
        return None
    columns = stage_actions.c
    found = await one_action(held.connection, held.key, columns.idempotency_key == idempotency_key)
    if found is not None and key_use(found.sha256, action) is KeyUse.CONFLICT:
        raise RequestRefused(key_conflict(idempotency_key))
    return found


async def _accept(held: HeldSession, given: Action, idempotency_key: str | None) -> AcceptedAction:
    key, action, ordinal = held.key, clean_action(given), held.next_ordinal
    row = ActionRow(
        key=key, id=action_id(key.session, ordinal), ordinal=ordinal, action=action, idempotency_key=idempotency_key,
        state="queued", stage="", to_stage=None, reply=None, attempt=0, wait=None, accepted_at=held.now, started_at=None,
        settled_at=None, sha256=given.sha256,
    )  # fmt: skip
    await _insert(held, row)
    held.tell(ACCEPTED, row.told)
    alone = held.open_actions == 0
    held.open_actions += 1
    decision = decide(held.definition, held.session, action.head(ordinal, held.now_ms)) if alone else None
    if isinstance(decision, Refused):
        row = await settle(held, row, decision)
    await keep(held, held.session)
    return AcceptedAction(row, held.row, repeated=False, wake=row.state != "settled", news=True)


async def _insert(held: HeldSession, row: ActionRow) -> None:
    key, action = held.key, row.action
    head = (session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session)
    await held.connection.execute(update(session_heads).where(*head).values(next_ordinal=row.ordinal + 1))
    values: dict[str, Any] = {
        "tenant_id": key.tenant, "session_id": key.session, "ordinal": row.ordinal, "id": row.id,
        "kind": action.kind.value, "name": action.name, "body": body_of(action), "sha256": row.sha256,
        "idempotency_key": row.idempotency_key, "state": row.state, "accepted_at": row.accepted_at,
    }  # fmt: skip
    sealed = seal_in(held.connection, key).row(stage_actions, values)
    await held.connection.execute(insert(stage_actions).values(sealed))
