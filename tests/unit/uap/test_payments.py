"""Policies and amounts of payments."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import App, agent
from perdure.errors import InvalidInput
from perdure.payments import Balance, Paid, PaymentHold, PaymentScheme, Refusal, Settled, SubmittedPayment
from perdure.uap.options import RunOptions
from perdure.uap.payments import is_source, plain_amount, to_amount, ways_to_pay
from perdure.uap.recorded_usage import known_cost
from perdure.upp.json_value import JSONObject
from perdure.upp.prices import Price
from perdure.upp.providers.scripted import scripted

PRICES = {"scripted": {"scripted": Price(Decimal(1), Decimal(2))}}


class Gate:
    """One that takes nothing."""

    def __init__(
        self, name: str = "own", schemes: Sequence[PaymentScheme] = (PaymentScheme("card", network="x"),)
    ) -> None:
        self.name, self.schemes = name, schemes

    async def accept(self, tenant: str, payment: SubmittedPayment, **more: Any) -> JSONObject | Refusal:
        return Refusal("payment_failed", "no")

    async def hold(self, wanted: PaymentHold, source: JSONObject) -> Balance | Refusal:
        return Refusal("payment_failed", "no")

    async def settle(self, tenant: str, run: str, cost: Decimal) -> Settled:
        return Settled(Decimal(0), Decimal(0), None)

    async def balance(self, tenant: str, source: JSONObject) -> Balance | Refusal:
        return Refusal("payment_failed", "no")


def one(name: str = "a", **more: Any) -> Any:
    return agent(name=name, model=scripted(["x"]), **more)


def test_a_policy_is_frozen_into_the_spec_of_its_agent_and_of_no_other() -> None:
    """By the default gate, with the ways to pay; a sub-agent is paid for by its root."""
    child = one("child")
    app = App([one("a", tools=[child]), one("b")], paid={"a": Paid("0.050", low_balance="1")})
    paid = app.charged(app.agent("a").spec()).paid
    assert paid is not None
    assert (paid.hold, paid.currency, paid.low_balance, paid.gate, paid.schemes) == (
        "0.05", "USD", "1.00", "ledger", [{"scheme": "token"}],
    )  # fmt: skip
    assert ways_to_pay(paid) == [{"scheme": "token", "amount": "0.05", "currency": "USD"}]
    assert app.charged(app.agent("b").spec()).paid is None
    assert app.charged(app.agent("a/child").spec(path="a/child")).paid is None


def test_a_gate_of_the_apps_own_says_how_to_pay() -> None:
    app = App([one()], paid={"a": Paid("1", currency="EUR")}, gate=Gate())
    paid = app.charged(app.agent("a").spec()).paid
    assert paid is not None
    assert (paid.gate, paid.schemes, paid.currency) == ("own", [{"scheme": "card", "network": "x"}], "EUR")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"hold": "0"}, "hold"),
        ({"hold": "-1"}, "hold"),
        ({"hold": "much"}, "hold"),
        ({"hold": Decimal("NaN")}, "hold"),
        ({"hold": "1", "currency": "US DOLLARS"}, "currency"),
        ({"hold": "1", "low_balance": "-1"}, "low_balance"),
        ({"hold": "1", "wait_s": 0}, "wait_s"),
        ({"hold": "1", "wait_s": True}, "wait_s"),
        ({"hold": "1", "wait_s": 1e12}, "wait_s"),
    ],
)
def test_a_policy_that_cannot_be_one_is_refused_by_name(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Paid(**more)


def test_what_an_app_cannot_charge_is_refused() -> None:
    """An agent that is not there, a gate with the default one's name or without a scheme, a model without a price."""
    with pytest.raises(InvalidInput, match="'nobody'"):
        App([one()], paid={"nobody": Paid("1")})
    with pytest.raises(InvalidInput, match="ledger"):
        App([one()], gate=Gate("ledger"))
    with pytest.raises(InvalidInput, match="no scheme"):
        App([one()], gate=Gate(schemes=()))
    app = App([one("a", tools=[one("child")]), one("free")], paid={"a": Paid("1")})
    app.check_prices(PRICES)
    with pytest.raises(InvalidInput, match=r"'a'.*'scripted'.*prices"):
        app.check_prices({})
    App([one()]).check_prices({})


@given(st.decimals(min_value=0, max_value=10**12, allow_nan=False, allow_infinity=False, places=9))
def test_an_amount_is_the_same_after_its_text(amount: Decimal) -> None:
    """Digit by digit, with two places at least and no exponent."""
    text = plain_amount(amount)
    assert to_amount(text) == amount
    assert len(text.partition(".")[2]) >= 2
    assert "E" not in text


@pytest.mark.parametrize("value", ["", "x", "-0.1", "NaN", "Infinity", 1.5, None, True])
def test_what_is_no_amount(value: object) -> None:
    assert to_amount(value) is None


def test_a_refusal_comes_back_as_it_was() -> None:
    refusal = Refusal("insufficient_balance", "no", balance_required=Decimal("0.05"), balance_current=Decimal(0))
    assert Refusal.from_json(refusal.to_json()) == refusal
    final = Refusal("mandate_revoked", "no", can_retry=False)
    assert Refusal.from_json(final.to_json()) == final


def test_the_options_of_a_run_take_a_source_and_nothing_else() -> None:
    """It comes back as it was; a token in its place is refused without being shown."""
    source = {"scheme": "token", "source": {"sha256": "0"}}
    options = RunOptions(payment=source)
    assert RunOptions.from_json(options.to_json()) == options
    assert is_source(source)
    for wrong in ({"scheme": "token"}, {"scheme": "token", "source": "x"}, {**source, "token": "x"}, "ptok"):
        with pytest.raises(InvalidInput, match="payment"):
            RunOptions(payment=wrong)  # type: ignore[arg-type]


def test_what_costs_nothing_known_counts_nothing() -> None:
    usages = [{"cost": "0.02"}, {"inputTokens": 5}, {"cost": "0.010"}]
    assert known_cost(usages) == Decimal("0.03")
