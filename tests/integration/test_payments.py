"""Runs that are paid for: held before they begin, topped up on their way, settled by what they used."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from perdure.errors import InvalidInput, PaymentNeeded, RunError
from perdure.runtime.rebuild import rebuild_session
from perdure.store.checkpoints import read_checkpoints
from perdure.uap.options import RunOptions
from perdure.uap.payments import Refusal, SubmittedPayment
from tests.integration.facts import check_session, read_facts
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
from tests.integration.stack import Stack


def new_name() -> str:
    """A name of its own in the ledger."""
    return uuid.uuid4().hex


async def test_a_preloaded_token_pays_and_what_is_left_is_free(stack: Stack) -> None:
    """Nothing is asked for; one hold, one charge of what was used, and the log says so after the run's end."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            purse = await Purse.funded(sessions, "10")
            handle = await submit(sessions, said(name), purse)
            assert (await handle.result()).response.text == f"answer of {name}"
            settled = await until_settled(sessions, handle)
        rows = await payment_rows(sessions, handle)
        assert [kind for kind, _ in rows] == ["payment.held", "payment.settled"]
        assert rows[0][1] == {
            "payment": rows[0][1]["payment"], "amount": "0.05", "currency": "USD", "balance": "9.95", "asked": False,
        }  # fmt: skip
        assert settled == {
            "charged": "0.02", "short": "0.00", "currency": "USD", "balance": "9.98", "low_balance_warning": False,
            "estimated_remaining": 499,
        }  # fmt: skip
        assert await purse.stands() == (Decimal("9.98"), Decimal(0))
        assert await purse.charges() == [(handle.id, Decimal("0.02"))]
    await check_session(stack, handle.session, name)


async def test_without_a_payment_it_waits_and_goes_on_once_it_is_paid(stack: Stack) -> None:
    """No model is called before; a bad token leaves it waiting, a good one is taken once."""
    name = new_name()
    async with stack.connect() as sessions:
        payments = payments_of(sessions)
        with worker(stack):
            purse = await Purse.funded(sessions, "1")
            handle = await sessions.submit("teller", said(name))
            asked = await until_asked(sessions, handle)
            assert asked.asked == {
                "amount": "0.05", "currency": "USD", "schemes": [{"scheme": "token"}], "reason": "llm_usage",
                "expires_at": asked.asked["expires_at"],
            }  # fmt: skip
            refused = await payments.submit(handle.id, by_token("ptok_nobody's"), by="me")
            assert isinstance(refused, Refusal)
            assert (refused.code, refused.can_retry) == ("token_invalid", True)
            other = await payments.submit(handle.id, SubmittedPayment("card", proof="x"), by="me")
            assert isinstance(other, Refusal)
            assert (other.code, "token" in other.message) == ("payment_failed", True)
            with pytest.raises(InvalidInput, match="payment"):
                await sessions.answer(asked.wait, {"scheme": "token", "source": {}}, by="me")
            assert stack.entries(name) == []
            assert isinstance(await payments.submit(handle.id, by_token(purse.token), by="me"), dict)
            await handle.result()
            await until_settled(sessions, handle)
            assert await payments.submit(handle.id, by_token(purse.token), by="me") is None
        rows = await payment_rows(sessions, handle)
        assert [kind for kind, _ in rows] == ["payment.required", "payment.held", "payment.settled"]
        assert (rows[0][1]["wait"], rows[1][1]["asked"], rows[2][1]["low_balance_warning"]) == (asked.wait, True, True)
        facts = await read_facts(sessions, handle.session)
        parked = [item.data for item in facts.events if item.type == "run.parked"]
        assert [(item["reason"], item["wait"]) for item in parked] == [("payment", asked.wait)]
        assert await purse.stands() == (Decimal("0.98"), Decimal(0))
    await check_session(stack, handle.session, name)


async def test_nobody_pays_in_time(stack: Stack) -> None:
    """The run fails with a code of its own; nothing was asked of the model, and nothing is charged."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack, PERDURE_TEST_WAIT_S="0.5"):
            handle = await sessions.submit("teller", said(name))
            with pytest.raises(RunError, match="nobody paid") as caught:
                await handle.result()
        assert (type(caught.value).__name__, caught.value.code) == ("PaymentMissing", "payment_timeout")
        assert stack.entries(name) == []
        assert [kind for kind, _ in await payment_rows(sessions, handle)] == ["payment.required"]
        assert await sessions.waits(handle.session) == []
    await check_session(stack, handle.session, name)


async def test_a_run_that_uses_more_asks_for_more(stack: Stack) -> None:
    """Holds follow each other while the balance lasts; then it asks again on its way, and goes on from where it was."""
    name = new_name()
    async with stack.connect() as sessions:
        payments = payments_of(sessions)
        with worker(stack):
            purse = await Purse.funded(sessions, "0.05")
            handle = await submit(sessions, said(name, steps=4), purse, agent="dear")
            asked = await until_asked(sessions, handle)
            assert (asked.asked["reason"], asked.asked["amount"]) == ("top_up", "0.02")
            assert answers_asked_for(stack, name) == 2
            short = await payments.submit(handle.id, by_token(purse.token), by="me")
            assert isinstance(short, Refusal)
            assert (short.code, short.balance_required, short.balance_current) == (
                "insufficient_balance", Decimal("0.02"), Decimal("0.01"),
            )  # fmt: skip
            other = await Purse.funded(sessions, "1")
            assert isinstance(await payments.submit(handle.id, by_token(other.token), by="me"), dict)
            await handle.result()
            settled = await until_settled(sessions, handle)
        kinds = [kind for kind, _ in await payment_rows(sessions, handle)]
        assert kinds == [*["payment.held"] * 2, "payment.required", *["payment.held"] * 3, "payment.settled"]
        assert (settled["charged"], settled["short"]) == ("0.10", "0.00")
        assert await purse.stands() == (Decimal("0.01"), Decimal(0))
        assert await other.stands() == (Decimal("0.94"), Decimal(0))
        assert answers_asked_for(stack, name) == 5
    await check_session(stack, handle.session, name)


async def test_what_nobody_pays_for_has_nothing_of_it(stack: Stack) -> None:
    """A run of an agent that costs nothing has no row, no event and no activity about payments."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            assert await payments_of(sessions).require("free", None) is None
            handle = await sessions.submit("free", said(name))
            await handle.result()
        assert await payment_rows(sessions, handle) == []
        async with sessions.database.driver() as connection:
            sql = "select count(*) from perdure.run_payments where run_id = $1"
            assert await connection.fetchval(sql, handle.id) == 0


async def test_what_is_required_is_said_before_anything_is_stored(stack: Stack) -> None:
    """Whoever answers only what is paid for is told the ways to pay, the amount, and why a payment was refused."""
    async with stack.connect() as sessions:
        payments = payments_of(sessions)
        with worker(stack):
            poor, euros = await Purse.funded(sessions, "0.01"), await Purse.funded(sessions, "5", "EUR")
            for payment, code in (
                (None, "payment_required"),
                (by_token("ptok_x"), "token_invalid"),
                (by_token(poor.token), "insufficient_balance"),
                (by_token(euros.token), "payment_failed"),
            ):
                with pytest.raises(PaymentNeeded) as caught:
                    await payments.require("teller", payment)
                assert caught.value.code == code
                assert caught.value.accepts == [{"scheme": "token", "amount": "0.05", "currency": "USD"}]
            balance = await payments.balance("teller", {"scheme": "token", "source": {"sha256": "0"}})
            assert isinstance(balance, Refusal)


async def test_a_run_pays_for_its_sub_agents(stack: Stack) -> None:
    """What they used counts where it goes on, and is settled with it; they themselves ask for nothing."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            purse = await Purse.funded(sessions, "1")
            text = said(name, steps=1, task={"name": f"{name}-helper", "steps": 2})
            handle = await submit(sessions, text, purse, agent="boss")
            await handle.result()
            settled = await until_settled(sessions, handle)
        held = [data["amount"] for kind, data in await payment_rows(sessions, handle) if kind == "payment.held"]
        assert held == ["0.05", "0.08"]
        assert settled["charged"] == "0.10"
        assert await purse.charges() == [(handle.id, Decimal("0.05")), (handle.id, Decimal("0.05"))]
        assert await purse.stands() == (Decimal("0.90"), Decimal(0))


async def test_a_strategy_of_ones_own_is_paid_for_at_each_of_its_model_calls(stack: Stack) -> None:
    """It waits in the middle of what it does, and goes on there."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            little = await Purse.funded(sessions, "0.04")
            handle = await submit(sessions, said(name, steps=2), little, agent="own")
            await until_asked(sessions, handle)
            assert answers_asked_for(stack, name) == 2
            other = await Purse.funded(sessions, "1")
            assert isinstance(await payments_of(sessions).submit(handle.id, by_token(other.token), by="me"), dict)
            await handle.result()
            await until_settled(sessions, handle)
        assert answers_asked_for(stack, name) == 3
        assert await little.stands() == (Decimal("0.00"), Decimal(0))
        assert await other.stands() == (Decimal("0.98"), Decimal(0))


async def test_a_run_that_goes_on_from_a_checkpoint_pays_for_the_rest(stack: Stack) -> None:
    """What the run before it had used was paid for by that one."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            first = await Purse.funded(sessions, "1")
            handle = await submit(sessions, said(name, steps=3), first, agent="dear")
            await handle.result()
            await until_settled(sessions, handle)
            async with sessions.database.transaction(handle.accepted.key) as connection:
                recorded = await read_checkpoints(connection, handle.accepted.key)
            second = await Purse.funded(sessions, "1")
            source = await payments_of(sessions).accept("dear", by_token(second.token))
            assert isinstance(source, dict)
            again = await sessions.resume_run(handle.session, recorded[1].id, RunOptions(payment=source))
            await again.result()
            settled = await until_settled(sessions, again)
        assert settled["charged"] == "0.04"
        assert await first.stands() == (Decimal("0.92"), Decimal(0))
        assert await second.stands() == (Decimal("0.96"), Decimal(0))
        report = await rebuild_session(sessions.client, sessions.database, handle.accepted.key)
        assert (report.lost_executions, report.missing_checkpoints) == ([], [])
        assert await second.stands() == (Decimal("0.96"), Decimal(0))
