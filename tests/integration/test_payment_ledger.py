"""Prepaid balances on a real PostgreSQL: nothing is spent twice, whatever comes at once or again."""

from __future__ import annotations

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from perdure.errors import InvalidInput, KeyConflict
from perdure.store.database import Database
from perdure.store.payments import holds
from perdure.store.payments.accounts import (
    AccountRow,
    close_account,
    issue_token,
    list_accounts,
    list_entries,
    open_account,
    revoke_token,
    top_up,
)
from perdure.store.payments.holds import HoldFor, settle_run, token_sha256
from perdure.store.payments.standing import PaymentKind, Standing
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def funded(database: Database, amount: str = "10") -> tuple[str, AccountRow, str]:
    """A tenant of its own with an account, and a token that pays from it."""
    tenant = f"payer-{uuid.uuid4().hex}"
    account = await open_account(database, tenant, "purse", "USD")
    await top_up(database, tenant, account.id, "first", Decimal(amount))
    return tenant, account, await issue_token(database, tenant, account.id)


def work(tenant: str, amount: str, *, run: str | None = None) -> HoldFor:
    """Something to pay for: a run of its own, or one more hold of a run."""
    return HoldFor(new_id(), SessionKey(tenant, "session"), run or new_id(), Decimal(amount))


async def hold(database: Database, token: str, wanted: HoldFor) -> Standing:
    """Hold an amount of what a token pays from."""
    return await holds.hold(database, token_sha256(token), wanted)


async def balance(database: Database, tenant: str) -> tuple[Decimal, Decimal]:
    """Balance and held of the tenant's only account."""
    (account,) = await list_accounts(database, tenant)
    return account.balance, account.held


async def test_a_hold_keeps_and_a_settlement_takes(database: Database) -> None:
    """What was held above the cost is free again; both are exact to the last digit."""
    tenant, account, token = await funded(database, "10.00")
    wanted = work(tenant, "3")
    assert (await hold(database, token, wanted)).available == Decimal(7)
    done = await settle_run(database, tenant, wanted.run, Decimal("0.1234567890123456789"))
    assert (done.kind, done.charged, done.short) == (PaymentKind.ENDED, Decimal("0.1234567890123456789"), Decimal(0))
    assert await balance(database, tenant) == (Decimal("9.8765432109876543211"), Decimal(0))
    entries = await list_entries(database, tenant, account.id)
    assert [(entry.ordinal, entry.kind, entry.ref) for entry in entries] == [
        (1, "top_up", "first"),
        (2, "charge", wanted.id),
    ]


async def test_again_is_once(database: Database) -> None:
    """A hold, a settlement and a top-up that come again change nothing, whatever the second one says."""
    tenant, account, token = await funded(database)
    wanted = work(tenant, "4")
    for _ in range(2):
        assert (await hold(database, token, wanted)).kind is PaymentKind.HELD
    assert await balance(database, tenant) == (Decimal(10), Decimal(4))
    assert (await settle_run(database, tenant, wanted.run, Decimal(1))).charged == Decimal(1)
    again = await settle_run(database, tenant, wanted.run, Decimal(3))
    assert (again.kind, again.charged, again.balance) == (PaymentKind.ENDED, Decimal(1), Decimal(9))
    assert (await hold(database, token, wanted)).kind is PaymentKind.ENDED
    assert (await top_up(database, tenant, account.id, "first", Decimal(10))).kind is PaymentKind.REPEATED
    with pytest.raises(KeyConflict, match="another amount"):
        await top_up(database, tenant, account.id, "first", Decimal(11))
    assert await balance(database, tenant) == (Decimal(9), Decimal(0))


async def test_many_at_once_hold_no_more_than_there_is(database: Database) -> None:
    """Of 40 holds of 1 on a balance of 10 ten are given, and each settles once though it is settled three times at once."""
    tenant, account, token = await funded(database, "10")
    wanted = [work(tenant, "1") for _ in range(40)]
    standings = await asyncio.gather(*(hold(database, token, one) for one in wanted))
    held = [one for one, standing in zip(wanted, standings, strict=True) if standing.kind is PaymentKind.HELD]
    assert len(held) == 10
    assert {standing.kind for standing in standings} == {PaymentKind.HELD, PaymentKind.SHORT}
    await asyncio.gather(*(settle_run(database, tenant, one.run, Decimal("0.7")) for one in held for _ in range(3)))
    assert await balance(database, tenant) == (Decimal("3.0"), Decimal(0))
    assert len(await list_entries(database, tenant, account.id)) == 11


async def test_work_that_cost_more_takes_only_what_nobody_else_holds(database: Database) -> None:
    """The rest is said to be short: no balance falls below zero, and nobody's hold is broken."""
    tenant, _, token = await funded(database, "10")
    dear, other = work(tenant, "2"), work(tenant, "5")
    await hold(database, token, dear)
    await hold(database, token, other)
    done = await settle_run(database, tenant, dear.run, Decimal(20))
    assert (done.charged, done.short, done.balance, done.held) == (Decimal(5), Decimal(15), Decimal(5), Decimal(5))
    assert (await settle_run(database, tenant, other.run, Decimal(5))).short == 0


async def test_what_pays_nothing(database: Database) -> None:
    """A token that is unknown, another tenant's, revoked or expired, an account that is closed, a balance that is used up."""
    tenant, account, token = await funded(database, "1")
    stranger, _, _ = await funded(database, "1")
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = await issue_token(database, tenant, account.id, expires_at=past)
    revoked = await issue_token(database, tenant, account.id)
    assert await revoke_token(database, tenant, revoked)
    assert (await hold(database, "ptok_nobody's", work(tenant, "1"))).kind is PaymentKind.UNKNOWN
    assert (await hold(database, token, work(stranger, "1"))).kind is PaymentKind.UNKNOWN
    assert (await hold(database, expired, work(tenant, "1"))).kind is PaymentKind.EXPIRED
    assert (await hold(database, revoked, work(tenant, "1"))).kind is PaymentKind.REVOKED
    assert (await hold(database, token, work(tenant, "1.01"))).kind is PaymentKind.SHORT
    mine = work(tenant, "1")
    assert (await hold(database, token, mine)).kind is PaymentKind.HELD
    assert (await hold(database, token, work(tenant, "0"))).kind is PaymentKind.SHORT
    taken = HoldFor(mine.id, mine.key, "another run", Decimal(1))
    assert (await hold(database, token, taken)).kind is PaymentKind.CONFLICT
    await close_account(database, tenant, account.id)
    assert (await settle_run(database, tenant, mine.run, Decimal("0.5"))).charged == Decimal("0.5")
    assert (await hold(database, token, work(tenant, "0.1"))).kind is PaymentKind.REVOKED
    with pytest.raises(InvalidInput, match="closed"):
        await top_up(database, tenant, account.id, "more", Decimal(1))
    assert (await settle_run(database, tenant, new_id(), Decimal(1))).kind is PaymentKind.UNKNOWN


async def test_bad_amounts_are_refused(database: Database) -> None:
    tenant, account, token = await funded(database)
    for amount in ("-1", "NaN", "Infinity"):
        with pytest.raises(InvalidInput, match="not negative"):
            await hold(database, token, work(tenant, amount))
        with pytest.raises(InvalidInput, match="not negative"):
            await top_up(database, tenant, account.id, "bad", Decimal(amount))
    with pytest.raises(InvalidInput, match="currency"):
        await open_account(database, tenant, "purse", "")
    with pytest.raises(InvalidInput, match="no payment account"):
        await issue_token(database, tenant, new_id())


async def test_the_sum_of_the_entries_is_the_balance(database: Database) -> None:
    """Whatever comes at once, in whatever order, twice and thrice."""
    tenant, account, token = await funded(database, "50")
    chance = random.Random(7)
    wanted = [work(tenant, str(chance.randint(1, 9))) for _ in range(max(20, scaled(400)))]

    async def one(item: HoldFor) -> None:
        if (await hold(database, token, item)).kind is PaymentKind.HELD:
            await hold(database, token, item)
            cost = Decimal(chance.randint(0, 900)) / 100
            await asyncio.gather(*(settle_run(database, tenant, item.run, cost) for _ in range(2)))
        await top_up(database, tenant, account.id, f"gift-{item.id}", Decimal("0.5"))

    await asyncio.gather(*(one(item) for item in wanted))
    entries = await list_entries(database, tenant, account.id, limit=10_000)
    total = sum(entry.amount if entry.kind == "top_up" else -entry.amount for entry in entries)
    assert await balance(database, tenant) == (total, Decimal(0))
    assert [entry.ordinal for entry in entries] == list(range(1, len(entries) + 1))
    assert min(entry.balance for entry in entries) >= 0


async def test_a_run_of_several_holds_is_settled_once_and_from_each_payer(database: Database) -> None:
    """Each payer pays what was held of it, in order, and the last one the rest; what is said to be short is said once."""
    tenant, _, token = await funded(database, "5")
    other = await open_account(database, tenant, "other", "USD")
    await top_up(database, tenant, other.id, "first", Decimal(3))
    second = await issue_token(database, tenant, other.id)
    first = work(tenant, "2")
    await hold(database, token, first)
    await hold(database, second, work(tenant, "1", run=first.run))
    await hold(database, second, work(tenant, "1", run=first.run))
    done = await settle_run(database, tenant, first.run, Decimal("6.5"))
    assert (done.account, done.charged, done.short, done.balance) == (other.id, Decimal(5), Decimal("1.5"), Decimal(0))
    again = await settle_run(database, tenant, first.run, Decimal("6.5"))
    assert (again.charged, again.short, again.balance, again.held) == (
        Decimal(5),
        Decimal("1.5"),
        Decimal(0),
        Decimal(0),
    )
    accounts = {account.id: (account.balance, account.held) for account in await list_accounts(database, tenant)}
    assert accounts == {first_of(accounts, other.id): (Decimal(3), Decimal(0)), other.id: (Decimal(0), Decimal(0))}


async def test_a_hold_that_came_late_is_free_again(database: Database) -> None:
    """A second settlement of the same cost ends it without taking anything."""
    tenant, _, token = await funded(database, "5")
    first = work(tenant, "2")
    await hold(database, token, first)
    await settle_run(database, tenant, first.run, Decimal(1))
    await hold(database, token, work(tenant, "2", run=first.run))
    assert await balance(database, tenant) == (Decimal(4), Decimal(2))
    assert (await settle_run(database, tenant, first.run, Decimal(1))).charged == Decimal(1)
    assert await balance(database, tenant) == (Decimal(4), Decimal(0))


async def test_another_currency_pays_nothing(database: Database) -> None:
    """Nothing is held of it, and the standing says which one it is."""
    tenant, _, token = await funded(database)
    wanted = work(tenant, "1")
    euros = HoldFor(wanted.id, wanted.key, wanted.run, wanted.amount, "EUR")
    standing = await hold(database, token, euros)
    assert (standing.kind, standing.currency, standing.held) == (PaymentKind.CURRENCY, "USD", Decimal(0))


def first_of(accounts: dict[str, tuple[Decimal, Decimal]], other: str) -> str:
    """The account that is not the other one."""
    return next(ident for ident in accounts if ident != other)
