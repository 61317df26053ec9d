"""What each paid run has been paid for so far, and whether it is settled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast

from sqlalchemy import select

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.tables import run_payments, runs
from perdure.uap.payments import to_amount
from perdure.uap.recorded_usage import known_cost
from perdure.uap.session_key import SessionKey
from perdure.uap.spec import PaidSpec
from perdure.upp.json_value import JSONObject

_LIMIT = 100
"""Of many, any: those whose gate fails, however many, hold up no other."""

_LEFT = """
select * from (
select p.tenant_id, p.for_session, p.run_id from perdure.run_payments p
  left join perdure.runs r on r.tenant_id = p.tenant_id and r.session_id = p.for_session and r.id = p.run_id
 where p.settled_at is null and p.gate = any($1) and p.made_at < clock_timestamp() - $2::interval
   and (r.id is null or r.ended_at < clock_timestamp() - $2::interval)
union
select h.tenant_id, h.for_session, h.for_run from perdure.payment_holds h
  join perdure.run_payments p on p.tenant_id = h.tenant_id and p.run_id = h.for_run and p.gate = any($1)
  left join perdure.runs r on r.tenant_id = h.tenant_id and r.session_id = h.for_session and r.id = h.for_run
 where h.state = 'held' and h.made_at < clock_timestamp() - $2::interval
   and (r.id is null or r.ended_at < clock_timestamp() - $2::interval)
) as found order by random() limit $3
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """How a run's payments stand.

    Attributes:
        kind: "ask" (a hold may be made), "open" (it waits for a payment), "expired" (it waited too long), "late" (the run
            has ended) or "gone" (its session is being deleted).
        wait: id of the wait that is open, and
        place: its place among the run's, from 0; of "ask" that of the next one.
        asked: what it asks for.
        expires_s: seconds that it has left.
        holds: how many holds there are, and
        held: their sum.
        answer: what the run's last wait was answered, {"scheme", "source"}; None if it has none.
        fresh: that answer has not been used yet.
        spent: what the run has cost, without what it goes on from.
    """

    kind: str
    wait: str = ""
    place: int = 0
    asked: JSONObject | None = None
    expires_s: float | None = None
    holds: int = 0
    held: Decimal = Decimal(0)
    answer: JSONObject | None = None
    fresh: bool = False
    spent: Decimal = Decimal(0)


async def claim(database: Database, writer: Writer, paid: PaidSpec, spent: Decimal) -> Claim:
    """How a run's payments stand, before it goes on.

    Args:
        database: the store.
        writer: the run.
        paid: its agent's policy.
        spent: what it has cost so far, with what it goes on from.
    """
    key = writer.key
    found = await database.call(
        "claim_payment_v1", key.tenant, key.session, writer.run, paid.gate, paid.currency, spent
    )
    answer = cast("JSONObject | None", found.get("answer"))
    seconds = cast("float | None", found.get("seconds"))
    return Claim(
        kind=str(found["kind"]),
        wait=str(found.get("wait") or ""),
        place=cast(int, found.get("place") or found.get("waits") or 0),
        asked=cast("JSONObject | None", found.get("asked")),
        expires_s=seconds,
        holds=cast(int, found.get("holds") or 0),
        held=Decimal(str(found.get("held") or 0)),
        answer=answer,
        fresh=bool(found.get("fresh")),
        spent=Decimal(str(found.get("spent") or 0)),
    )


async def open_wait(
    database: Database, writer: Writer, wait: str, place: int, asked: JSONObject, expires_at: datetime,
    events: Sequence[JSONObject],
) -> Claim:  # fmt: skip
    """Have a run wait for its payment; harmless if it does.

    Args:
        database: the store.
        writer: the run.
        wait: id of the wait, and
        place: its place among the run's.
        asked: what is to be paid.
        expires_at: when the run stops waiting.
        events: for the log, if the wait is new.
    """
    key, seal = writer.key, database.seal(writer.key)
    found = await database.call(
        "open_payment_v1", key.tenant, key.session, writer.run, wait, place, escaped_json(seal.value(asked)), expires_at,
        seal.event_text(events),
    )  # fmt: skip
    seconds = cast("float | None", found.get("seconds"))
    return Claim(str(found["kind"]), wait, place, cast("JSONObject | None", found.get("asked")), seconds)


async def note_hold(
    database: Database, writer: Writer, holds: int, amount: Decimal, events: Sequence[JSONObject]
) -> tuple[str, Decimal]:
    """Note that the gate has kept an amount; once for each hold.

    Args:
        database: the store.
        writer: the run.
        holds: how many there are with this one.
        amount: of this one.
        events: for the log, if it is new.

    Returns:
        "held", "late" or "gone"; and what is held in all.
    """
    key, seal = writer.key, database.seal(writer.key)
    found = await database.call(
        "note_payment_v1", key.tenant, key.session, writer.run, holds, amount, seal.event_text(events)
    )
    return str(found["kind"]), Decimal(str(found.get("held") or 0))


async def note_settled(
    database: Database, key: SessionKey, run: str, charged: Decimal, short: Decimal, events: Sequence[JSONObject]
) -> bool:
    """Note that a run's payments are settled; returns whether they were not before. The log is told once."""
    seal = database.seal(key)
    found = await database.call("end_payment_v1", key.tenant, key.session, run, charged, short, seal.event_text(events))
    return found["kind"] == "done"


@dataclass(frozen=True, slots=True)
class RunPayment:
    """A paid run as it is to be settled.

    Attributes:
        gate: the name of its gate.
        currency: of its amounts.
        holds: how many there are.
        cost: what it cost, its sub-agents and middleware too: nothing of what it had used before it began.
        is_open: it has not ended.
        low_balance: the payer is warned from this balance on; None if it is not.
    """

    gate: str
    currency: str
    holds: int
    cost: Decimal
    is_open: bool
    low_balance: Decimal | None = None


async def read_run_payment(database: Database, key: SessionKey, run: str) -> RunPayment | None:
    """What is known of a paid run; None if it never asked for a payment.

    Of one whose row is gone with its session the cost is what it had said at its last hold.
    """
    paid = run_payments
    of_run = (runs.c.tenant_id == paid.c.tenant_id) & (runs.c.session_id == key.session) & (runs.c.id == paid.c.run_id)
    query = (
        select(paid, runs.c.id, runs.c.ended_at, runs.c.usage_by_agent, runs.c.spec)
        .join_from(paid, runs, of_run, isouter=True)
        .where(paid.c.tenant_id == key.tenant, paid.c.run_id == run)
    )
    async with database.reading(key) as connection:
        row = (await connection.execute(query)).first()
    if row is None:
        return None
    known = row.id is not None
    usages = cast("dict[str, JSONObject]", row.usage_by_agent or {})
    policy = cast("JSONObject", cast("JSONObject", row.spec or {}).get("paid") or {})
    return RunPayment(
        gate=row.gate,
        currency=row.currency,
        holds=row.holds,
        cost=known_cost(usages.values()) if known else row.spent,
        is_open=known and row.ended_at is None,
        low_balance=to_amount(policy.get("low_balance") or None),
    )


async def read_policy(database: Database, key: SessionKey, run: str) -> JSONObject | None:
    """How a run is paid for, as it was frozen when it began: `PaidSpec` as JSON; None if it is not."""
    query = select(runs.c.spec).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.id == run
    )
    async with database.reading(key) as connection:
        spec = cast("JSONObject | None", await connection.scalar(query))
    return cast("JSONObject | None", (spec or {}).get("paid"))


async def find_left(database: Database, gates: Collection[str], *, older: timedelta) -> list[tuple[SessionKey, str]]:
    """Runs that have ended and whose payments are not settled, as when their worker died between both.

    Args:
        database: the store.
        gates: names of those that can be asked here.
        older: so long ago at least.
    """
    async with database.driver() as connection:
        rows = await connection.fetch(_LEFT, list(gates), older, _LIMIT)
    return [(SessionKey(row["tenant_id"], row["for_session"]), row["run_id"]) for row in rows]
