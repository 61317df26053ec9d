"""Input policies: what an input does while a run is active. Decided in the transaction that stores it, by the head row.

`enqueue` waits for its turn. `reject` is refused. `interrupt` has the active run cancelled and goes before all that waits;
`rollback` also takes back what that run said. `steer` joins the active run before its next model call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, QueueFull, RunActive
from perdure.store.tables import inputs
from perdure.uap.session_key import SessionKey

ENQUEUE = "enqueue"
REJECT = "reject"
INTERRUPT = "interrupt"
ROLLBACK = "rollback"
STEER = "steer"
POLICIES = (ENQUEUE, REJECT, INTERRUPT, ROLLBACK, STEER)
FIRST = (INTERRUPT, ROLLBACK)
"""Those that go before all others, if they have a target."""
MAX_QUEUED = 1000

STARTED = "started"
QUEUED = "queued"
JOINED = "joined"
_ACTIONS = {INTERRUPT: "interrupts", ROLLBACK: "rolls_back", STEER: "steers"}


def check_policy(policy: str, max_queue: int) -> None:
    """See that these can be used.

    Raises:
        InvalidInput: one cannot.
    """
    if policy not in POLICIES:
        raise InvalidInput(f"policy is {policy[:40]!r}; it must be one of {', '.join(POLICIES)}")
    if max_queue < 1:
        raise InvalidInput(f"max_queue is {max_queue}; it must be at least 1")


async def find_target(connection: AsyncConnection, key: SessionKey, head: Row[Any], policy: str) -> str | None:
    """The run that an input with this policy is about; None if it only waits for its turn.

    Args:
        connection: of the storing transaction, which holds the head row.
        key: the session.
        head: its head row.
        policy: of the input.

    Raises:
        RunActive: `reject` met an active run, or one that is about to begin.
    """
    active: str | None = head.active_run
    if policy == REJECT:
        busy = active or await _next_run(connection, key)
        if busy is not None:
            raise RunActive(
                f"run {busy} of session {key.session} is {'active' if active else 'queued'}; wait for its end, or use "
                f"the policy {ENQUEUE}, {INTERRUPT}, {ROLLBACK} or {STEER}",
                run_id=busy,
            )
    return active if policy in (*FIRST, STEER) else None


async def check_room(connection: AsyncConnection, key: SessionKey, max_queue: int) -> int:
    """How many inputs wait in a session's inbox.

    Raises:
        QueueFull: as many as may.
    """
    waiting = await connection.scalar(select(func.count()).select_from(inputs).where(*_waiting(key))) or 0
    if waiting >= max_queue:
        raise QueueFull(
            f"{waiting} inputs wait in session {key.session}, and no more than {max_queue} may; submit again, with the "
            "same key, when some have been taken, or withdraw some"
        )
    return waiting


async def count_before(
    connection: AsyncConnection, key: SessionKey, ordinal: int, policy: str, target: str | None
) -> int:
    """How many of the inputs that wait, and are due, are taken before one of them."""
    goes_first = inputs.c.target_run.is_not(None) & inputs.c.policy.in_(FIRST)
    earlier = inputs.c.ordinal < ordinal
    before = goes_first & earlier if target is not None and policy in FIRST else or_(goes_first, earlier)
    due = or_(inputs.c.not_before.is_(None), inputs.c.not_before <= func.clock_timestamp())
    query = select(func.count()).select_from(inputs).where(*_waiting(key), due, before)
    return await connection.scalar(query) or 0


def queued_action(policy: str, target: str | None, *, starts: bool = False) -> str:
    """What an input that waits does. `starts`: nothing stands before it."""
    if target is not None and policy in _ACTIONS:
        return _ACTIONS[policy]
    return STARTED if starts else QUEUED


async def _next_run(connection: AsyncConnection, key: SessionKey) -> str | None:
    """The run of the input that is taken next, if one waits that is due."""
    due = or_(inputs.c.not_before.is_(None), inputs.c.not_before <= func.clock_timestamp())
    kinds = inputs.c.kind.in_(("message", "resume", "rewrite"))
    query = select(inputs.c.run_id).where(*_waiting(key), due, kinds)
    return await connection.scalar(query.order_by(inputs.c.ordinal).limit(1))


def _waiting(key: SessionKey) -> tuple[Any, ...]:
    return inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.state == "queued"
