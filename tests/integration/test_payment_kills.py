"""Payments whatever is killed: nothing is paid twice, nothing stays held, and every run comes to its end."""

from __future__ import annotations

import asyncio
import uuid
from decimal import Decimal
from pathlib import Path

import pytest

from tests.integration.facts import check_session
from tests.integration.paying import (
    Purse,
    answers_asked_for,
    by_token,
    payment_rows,
    payments_of,
    said,
    submit,
    until_asked,
    until_settled,
    worker,
)
from tests.integration.stack import Stack, eventually
from tests.scale import scaled

COSTS = Decimal("0.02")


def new_name() -> str:
    """A name of its own in the ledger."""
    return uuid.uuid4().hex


@pytest.mark.parametrize(
    "point",
    ["pay.claimed", "pay.held", "pay.noted", "end_run.stored", "settle.settling", "settle.settled", "settle.noted"],
)
async def test_a_worker_that_dies_while_it_is_paid_takes_the_money_once(
    stack: Stack, tmp_path: Path, point: str
) -> None:
    """One hold, one charge, one row of each kind in the log."""
    name = new_name()
    async with stack.connect() as sessions:
        purse = await Purse.funded(sessions, "1")
        with worker(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")) as first:
            handle = await submit(sessions, said(name), purse)
            await asyncio.to_thread(first.wait_dead)
        with worker(stack):
            await handle.result()
            settled = await until_settled(sessions, handle)
        assert settled["charged"] == "0.02"
        assert [kind for kind, _ in await payment_rows(sessions, handle)] == ["payment.held", "payment.settled"]
        assert await purse.charges() == [(handle.id, COSTS)]
        assert await purse.stands() == (Decimal("0.98"), Decimal(0))
    await check_session(stack, handle.session, name)


async def test_a_worker_that_dies_while_it_asks_asks_once(stack: Stack, tmp_path: Path) -> None:
    """One payment.required, one wait."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack, PERDURE_CRASH_AT="pay.opened", PERDURE_CRASH_ONCE=str(tmp_path / "crashed")) as first:
            purse = await Purse.funded(sessions, "1")
            handle = await sessions.submit("teller", said(name))
            await asyncio.to_thread(first.wait_dead)
        with worker(stack):
            asked = await until_asked(sessions, handle)
            assert [row.id for row in await sessions.waits(handle.session)] == [asked.wait]
            assert isinstance(await payments_of(sessions).submit(handle.id, by_token(purse.token), by="me"), dict)
            await handle.result()
            await until_settled(sessions, handle)
        kinds = [kind for kind, _ in await payment_rows(sessions, handle)]
        assert kinds == ["payment.required", "payment.held", "payment.settled"]
        assert await purse.stands() == (Decimal("0.98"), Decimal(0))
    await check_session(stack, handle.session, name)


@pytest.mark.parametrize("steps", [0, 3])
async def test_all_die_between_the_asking_and_the_paying(stack: Stack, steps: int) -> None:
    """It is paid for while no worker lives; the next one goes on with it, at its beginning or on its way."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            little = await Purse.funded(sessions, "0.04")
            handle = await submit(sessions, said(name, steps=steps), little if steps else None, agent="dear")
            asked = await until_asked(sessions, handle)
        assert answers_asked_for(stack, name) == (2 if steps else 0)
        purse = await Purse.funded(sessions, "1")
        assert isinstance(await payments_of(sessions).submit(handle.id, by_token(purse.token), by="me"), dict)
        with worker(stack):
            await handle.result()
            await until_settled(sessions, handle)
        required = [data["wait"] for kind, data in await payment_rows(sessions, handle) if kind == "payment.required"]
        assert required == [asked.wait]
        assert answers_asked_for(stack, name) == steps + 1
        whole = COSTS * (steps + 1)
        paid_before = min(whole, Decimal("0.04")) if steps else Decimal(0)
        assert await little.stands() == (Decimal("0.04") - paid_before, Decimal(0))
        assert await purse.stands() == (Decimal(1) - whole + paid_before, Decimal(0))
    await check_session(stack, handle.session, name)


async def test_what_a_lost_execution_has_not_settled_the_sweep_settles(stack: Stack, tmp_path: Path) -> None:
    """The worker dies between the run's end and its settlement, and nothing of its execution is left."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack, PERDURE_CRASH_AT="end_run.stored", PERDURE_CRASH_ONCE=str(tmp_path / "crashed")) as first:
            purse = await Purse.funded(sessions, "1")
            handle = await submit(sessions, said(name), purse)
            await asyncio.to_thread(first.wait_dead)
        await sessions.client.get_workflow_handle(handle.accepted.key.workflow_id).terminate("the test loses it")
        with worker(stack):
            await until_settled(sessions, handle)
        assert await purse.stands() == (Decimal("0.98"), Decimal(0))
        assert await purse.charges() == [(handle.id, COSTS)]


async def test_many_at_once_spend_no_more_than_there_is(stack: Stack) -> None:
    """Of many runs as many go on as the balance covers; the others wait, and go on once somebody else pays."""
    count = max(12, scaled(200))
    async with stack.connect() as sessions:
        with worker(stack):
            purse, other = await Purse.funded(sessions, "0.10"), await Purse.funded(sessions, "100")
            names = [new_name() for _ in range(count)]
            handles = await asyncio.gather(
                *(submit(sessions, said(name), purse, agent="dear", key=name, covers=False) for name in names)
            )
            payments = payments_of(sessions)

            async def waiting() -> list[str] | None:
                found = [handle.id for handle in handles if await payments.open(handle.id) is not None]
                return found if len(found) == count - 5 else None

            for run in await eventually(waiting, what="all but five to wait"):
                assert isinstance(await payments.submit(run, by_token(other.token), by="me"), dict)
            await asyncio.gather(*(handle.result() for handle in handles))
            await asyncio.gather(*(until_settled(sessions, handle) for handle in handles))
        assert await purse.stands() == (Decimal("0.00"), Decimal(0))
        assert await other.stands() == (Decimal(100) - COSTS * (count - 5), Decimal(0))
        assert len(await purse.charges()) == 5
        assert sorted(run for run, _ in [*await purse.charges(), *await other.charges()]) == sorted(
            handle.id for handle in handles
        )


async def test_cancelling_takes_what_was_used_and_frees_the_rest(stack: Stack) -> None:
    """A run that waits for its payment costs nothing; one that is cancelled on its way costs what it used."""
    async with stack.connect() as sessions:
        with worker(stack):
            purse = await Purse.funded(sessions, "1")
            idle = await sessions.submit("teller", said(new_name()))
            await until_asked(sessions, idle)
            await sessions.cancel(idle.session)
            name = new_name()
            busy = await submit(sessions, said(name, steps=30, latency=0.2), purse)
            await stack.until_entries(name, "tool", 1)
            await sessions.cancel(busy.session)
            settled = await until_settled(sessions, busy)
            charged = Decimal(settled["charged"])

            async def ended() -> bool:
                return (await idle.status()).status == "cancelled"

            await eventually(ended, what="the idle run to be cancelled")
        assert [kind for kind, _ in await payment_rows(sessions, idle)] == ["payment.required"]
        assert charged >= COSTS
        assert await purse.stands() == (Decimal(1) - charged, Decimal(0))
