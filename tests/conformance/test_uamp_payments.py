"""Checks 67 to 72 of UAMP 1.0's events: responses that are paid for, from prepaid balances.

Each model call of these costs 0.02 USD; 0.05 are held at a time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from perdure.store.database import Database
from perdure.store.payments.accounts import issue_token, list_accounts, list_entries, open_account, top_up
from tests.conformance.uamp_agents import call, plan
from tests.conformance.uamp_client import Event, Line, Talk, new_id
from tests.conformance.uamp_server import TENANT, UampServer

USAGE = [10, 5, 0]
HELLO = plan({"say": "hello", "usage": USAGE})
BILLED = frozenset({"response.created", "response.delta", "thinking", "usage.delta", "response.done"})


class Purse:
    """An account of a test's own, and its token."""

    def __init__(self, url: str, account: str, token: str) -> None:
        self._url = url
        self.account = account
        self.token = token

    @property
    def payment(self) -> Event:
        """What a client pays with."""
        return {"scheme": "token", "token": self.token, "amount": "0.05"}

    async def charges(self) -> list[Decimal]:
        """What was paid, in order."""
        database = Database(self._url, pool_size=1)
        entries = await list_entries(database, TENANT, self.account)
        await database.close()
        return [entry.amount for entry in entries if entry.kind == "charge"]

    async def stands(self) -> tuple[Decimal, Decimal]:
        """Its balance, and what is held of it."""
        database = Database(self._url, pool_size=1)
        rows = await list_accounts(database, TENANT)
        await database.close()
        (row,) = [row for row in rows if row.id == self.account]
        return row.balance, row.held

    async def add(self, amount: str) -> None:
        """Top it up."""
        database = Database(self._url, pool_size=1)
        await top_up(database, TENANT, self.account, new_id(), Decimal(amount))
        await database.close()


async def purse_of(uamp: UampServer, amount: str, *, lasts: timedelta | None = None) -> Purse:
    """An account with a balance."""
    database = Database(uamp.database_url, pool_size=1)
    account = await open_account(database, TENANT, "purse", "USD")
    await top_up(database, TENANT, account.id, new_id(), Decimal(amount))
    expires = None if lasts is None else datetime.now(UTC) + lasts
    token = await issue_token(database, TENANT, account.id, expires_at=expires)
    await database.close()
    return Purse(uamp.database_url, account.id, token)


async def asked_to_pay(line: Line, agent: str = "paid") -> tuple[Talk, Event]:
    """A session in which a response waits for a payment, and what is asked."""
    talk = await line.open(agent=agent)
    await talk.text(HELLO)
    await talk.send("response.create")
    return talk, await talk.hear("payment.required")


def behind(talk: Talk, *kinds: str) -> list[str]:
    """The types of a session's events, of these only."""
    return [kind for kind in talk.types if kind in kinds]


async def test_check_67_nothing_is_billed_before_a_payment_is_asked_for(line: Line) -> None:
    """payment.required comes first, with amounts as text and at least one way to pay."""
    talk, required = await asked_to_pay(line)
    asked = required["requirements"]
    assert Decimal(asked["amount"]) == Decimal("0.05")
    assert isinstance(asked["amount"], str)
    assert asked["currency"] == "USD"
    assert [scheme["scheme"] for scheme in asked["schemes"]] == ["token"]
    assert 1e9 < asked["expires_at"] < 1e11, "seconds"
    await talk.pause()
    assert not BILLED & set(talk.types)
    await talk.send("response.cancel")
    assert (await talk.hear("response.cancelled"))["response_id"] == required["response_id"]


async def test_check_68_a_payment_is_accepted_once_and_the_rest_is_told(line: Line, uamp: UampServer) -> None:
    """payment.accepted, the response under the id that was reserved, then the balance; what was used is paid, once."""
    purse = await purse_of(uamp, "1")
    talk, required = await asked_to_pay(line)
    await talk.send("payment.submit", payment=purse.payment)
    accepted = await talk.hear("payment.accepted")
    assert accepted["payment_id"]
    assert Decimal(accepted["balance_remaining"]) == Decimal("0.95")
    answer = await talk.end_of(required["response_id"])
    assert answer.text == "hello"
    balance = await talk.hear("payment.balance")
    assert (Decimal(balance["balance"]), balance["currency"]) == (Decimal("0.98"), "USD")
    kinds = behind(talk, "payment.required", "payment.accepted", "response.created", "response.done", "payment.balance")
    assert kinds == [
        "payment.required", "payment.accepted", "response.created", "response.done", "payment.balance",
    ]  # fmt: skip
    assert await purse.charges() == [Decimal("0.02")]
    assert await purse.stands() == (Decimal("0.98"), Decimal(0))


async def test_check_69_a_wrong_token_can_be_followed_by_a_right_one(line: Line, uamp: UampServer) -> None:
    """payment.error, flat, says that it may be tried again; an expired token and an empty purse likewise."""
    talk, required = await asked_to_pay(line)
    await talk.send("payment.submit", payment={"scheme": "token", "token": "ptok_of-nobody", "amount": "0.05"})
    error = await talk.hear("payment.error")
    assert (error["code"], error["can_retry"]) == ("token_invalid", True)
    assert error["message"]
    late = await purse_of(uamp, "1", lasts=timedelta(seconds=-1))
    await talk.send("payment.submit", payment=late.payment)
    assert (await talk.hear("payment.error"))["code"] == "token_expired"
    poor = await purse_of(uamp, "0.01")
    await talk.send("payment.submit", payment=poor.payment)
    short = await talk.hear("payment.error")
    assert (short["code"], short["can_retry"]) == ("insufficient_balance", True)
    assert (Decimal(short["balance_required"]), Decimal(short["balance_current"])) == (Decimal("0.05"), Decimal("0.01"))
    purse = await purse_of(uamp, "1")
    await talk.send("payment.submit", payment=purse.payment)
    assert (await talk.end_of(required["response_id"])).text == "hello"
    await talk.hear("payment.balance")
    assert talk.types.count("payment.accepted") == 1
    assert await purse.charges() == [Decimal("0.02")]
    assert await poor.charges() == []


async def test_check_70_a_payment_that_does_not_come_ends_the_response(line: Line) -> None:
    """With the code that says so; it never began, and the session goes on."""
    talk, required = await asked_to_pay(line, agent="hasty")
    error = await talk.hear("response.error")
    assert error["response_id"] == required["response_id"]
    assert error["error"]["code"] == "payment_timeout"
    assert not {"response.delta", "thinking", "usage.delta"} & set(talk.types)
    await talk.text(HELLO)
    await talk.send("response.create")
    assert (await talk.hear("payment.required"))["response_id"] != required["response_id"]


@pytest.mark.parametrize("way", ["session.create", "session.update", "input.text", "payment.submit"])
async def test_check_71_a_token_that_is_there_already_is_not_asked_for(line: Line, uamp: UampServer, way: str) -> None:
    """Of the session, of this interaction, or submitted beforehand; check 20: the next charge is made to it."""
    purse = await purse_of(uamp, "1")
    given: Event = {"payment_token": purse.token}
    talk = await line.open(agent="paid", **(given if way == "session.create" else {}))
    if way == "session.update":
        await talk.send("session.update", payment_token=purse.token)
        await talk.hear("session.updated")
    elif way == "payment.submit":
        await talk.send("payment.submit", payment=purse.payment)
        assert Decimal((await talk.hear("payment.balance"))["balance"]) == 1
    await talk.text(HELLO, **(given if way == "input.text" else {}))
    answer = await talk.ask()
    assert answer.text == "hello"
    await talk.hear("payment.balance")
    assert "payment.required" not in talk.types
    assert await purse.charges() == [Decimal("0.02")]


async def test_check_72_more_is_asked_for_in_the_middle(line: Line, uamp: UampServer) -> None:
    """What was held is used up and no more is there: a second payment.required; the same response goes on once it is paid."""
    purse = await purse_of(uamp, "0.05")
    steps = [
        {"say": f"{city} ", "calls": [call("weather", city=city)], "usage": USAGE} for city in ("Rome", "Oslo", "Bonn")
    ]
    talk = await line.open(agent="paid", payment_token=purse.token)
    await talk.text(plan(*steps, {"say": "sunny", "usage": USAGE}))
    response = await talk.begin()
    required = await talk.hear("payment.required")
    assert required["response_id"] == response
    before = "".join(event["delta"]["text"] for event in talk.heard if event.get("delta", {}).get("type") == "text")
    assert before
    more = await purse_of(uamp, "1")
    await talk.send("payment.submit", payment=more.payment)
    answer = await talk.end_of(response)
    assert answer.told == answer.text == "Rome Oslo Bonn sunny"
    await talk.hear("payment.balance")
    assert talk.types.count("response.created") == talk.types.count("response.done") == 1
    assert sum(await purse.charges() + await more.charges()) == Decimal("0.08")
    assert (await purse.stands())[1] == (await more.stands())[1] == 0
