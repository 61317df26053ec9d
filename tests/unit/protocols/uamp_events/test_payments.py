"""A response that is paid for, out of the rows of its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from perdure.protocols.uamp_events.client_events import Payment
from perdure.protocols.uamp_events.payment_story import of_token, payment_balance, payment_error, submitted
from perdure.protocols.uamp_events.response_flow import Events, ResponseFlow
from perdure.protocols.uamp_events.server_events import ResponseCreated, ResponseError
from perdure.protocols.uamp_events.surrounding_events import PaymentAccepted, PaymentBalance, PaymentError
from perdure.uap.payments import Balance, Refusal
from perdure.upp.json_value import JSONObject

AT = datetime(2026, 1, 6, 17, 27, tzinfo=UTC)
ASKED: JSONObject = {
    "amount": "0.05",
    "currency": "USD",
    "schemes": [{"scheme": "token"}],
    "reason": "llm_usage",
    "expires_at": 1767720420,
}
HELD: JSONObject = {"payment": "hold 1", "amount": "0.05", "currency": "USD", "balance": "0.95", "asked": True}
SETTLED: JSONObject = {
    "charged": "0.02",
    "short": "0.00",
    "currency": "USD",
    "balance": "0.98",
    "low_balance_warning": True,
}
REFUSED: JSONObject = {
    "code": "insufficient_balance",
    "message": "too little",
    "can_retry": True,
    "balance_required": "0.05",
    "balance_current": "0.01",
}


@dataclass
class Row:
    """A row of the log."""

    seq: int
    type: str
    data: JSONObject = field(default_factory=dict[str, "JSONObject"])  # type: ignore[assignment]
    source: str = "run"
    run: str | None = "run"
    at: datetime = AT


def told(flow: ResponseFlow, *rows: tuple[str, JSONObject]) -> list[str]:
    """The types of what the rows become."""
    return [event.type for event in read(flow, *rows)]


def read(flow: ResponseFlow, *rows: tuple[str, JSONObject]) -> Events:
    """What the rows become."""
    events: Events = []
    for seq, (kind, data) in enumerate(rows):
        source = "uap" if kind == "step_start" else "run"
        events += flow.take(Row(seq + 1, kind, data, source=source))
    return events


BEGUN: tuple[str, JSONObject] = ("run.started", {})
REQUIRED: tuple[str, JSONObject] = ("payment.required", {"wait": "w1", **ASKED})
PARKED: tuple[str, JSONObject] = ("run.parked", {"reason": "payment", "wait": "w1"})
ENDED: tuple[str, JSONObject] = ("run.completed", {"usage": {}})


def paid_flow() -> ResponseFlow:
    """Of an agent that is paid for."""
    return ResponseFlow("resp", "run", "session", paid=True)


def test_67_68_it_is_created_once_its_payment_was_accepted() -> None:
    """Required, accepted, created, done, and the balance at the very end; each once."""
    flow = paid_flow()
    assert told(flow, BEGUN, REQUIRED, PARKED) == ["payment.required"]
    assert (flow.open_payment, flow.is_over) == ("w1", False)
    reminder = flow.payment_reminder()
    assert reminder is not None
    assert reminder.requirements.amount == "0.05"
    events = read(flow, ("payment.held", HELD), ("run.resumed", {"reason": "payment"}), ENDED)
    assert [event.type for event in events] == ["payment.accepted", "response.created", "response.done"]
    accepted = events[0]
    assert isinstance(accepted, PaymentAccepted)
    assert (accepted.payment_id, accepted.balance_remaining, accepted.response_id) == ("hold 1", "0.95", "resp")
    assert (flow.open_payment, flow.payment_reminder(), flow.is_over, flow.is_settled) == (None, None, True, False)
    (balance,) = read(flow, ("payment.settled", SETTLED))
    assert isinstance(balance, PaymentBalance)
    assert (balance.balance, balance.currency, balance.low_balance_warning) == ("0.98", "USD", True)
    assert flow.is_settled


def test_69_a_refused_payment_is_an_error_and_it_is_asked_for_again() -> None:
    """The second payment.required is another wait's."""
    flow = paid_flow()
    again: JSONObject = {"wait": "w2", **ASKED}
    events = read(flow, BEGUN, REQUIRED, PARKED, ("payment.refused", REFUSED), ("payment.required", again))
    assert [event.type for event in events] == ["payment.required", "payment.error", "payment.required"]
    error = events[1]
    assert isinstance(error, PaymentError)
    assert (error.code, error.balance_required, error.balance_current, error.can_retry, error.response_id) == (
        "insufficient_balance", "0.05", "0.01", True, "resp",
    )  # fmt: skip
    assert flow.open_payment == "w2"


def test_70_nobody_pays() -> None:
    """The response ends with an error that says so, without having been created."""
    flow = paid_flow()
    failed: JSONObject = {"error": {"type": "PaymentMissing", "code": "payment_timeout", "message": "nobody paid"}}
    events = read(flow, BEGUN, REQUIRED, PARKED, ("run.failed", failed))
    assert [event.type for event in events] == ["payment.required", "response.error"]
    assert isinstance(events[1], ResponseError)
    assert events[1].error.code == "payment_timeout"
    assert (flow.open_payment, flow.is_settled) == (None, True)


def test_71_what_was_paid_before_is_not_asked_for() -> None:
    """No payment.required, and nothing is accepted that was not asked for."""
    held: JSONObject = {**HELD, "asked": False}
    assert told(paid_flow(), BEGUN, ("payment.held", held), ENDED) == ["response.created", "response.done"]


def test_72_more_is_asked_for_on_the_way() -> None:
    """The response that was created goes on; holds that nobody was asked for are not told."""
    flow = paid_flow()
    held: JSONObject = {**HELD, "asked": False}
    step: tuple[str, JSONObject] = ("step_start", {"stepNumber": 1})
    assert told(flow, BEGUN, ("payment.held", held), step, ("payment.held", held)) == ["response.created", "progress"]
    assert told(flow, REQUIRED, PARKED, ("payment.held", HELD), step) == [
        "payment.required",
        "payment.accepted",
        "progress",
    ]


def test_without_a_policy_it_is_created_at_once_whatever_comes() -> None:
    """An agent that came to be paid for after the flow was opened still tells its payments."""
    flow = ResponseFlow("resp", "run", "session")
    assert told(flow, BEGUN, REQUIRED) == ["response.created", "payment.required"]


def test_the_same_rows_give_the_same_events() -> None:
    """A client that comes back has the ids that it knows."""
    rows = [BEGUN, REQUIRED, PARKED, ("payment.held", HELD), ENDED, ("payment.settled", SETTLED)]
    first, second = read(paid_flow(), *rows), read(paid_flow(), *rows)
    assert first == second
    assert len({event.event_id for event in first}) == len(first)
    assert any(isinstance(event, ResponseCreated) for event in first)


def test_what_a_client_pays_with_keeps_its_secrets() -> None:
    """They are handed on, and shown nowhere."""
    wire = Payment(
        scheme="token", token="ptok_secret", proof="proof of it", ap2_credential={"a": "credential"}, amount="1"
    )
    made = submitted(wire)
    assert (made.scheme, made.token, made.proof, made.credential, made.amount) == (
        "token", "ptok_secret", "proof of it", {"a": "credential"}, "1",
    )  # fmt: skip
    for secret in ("ptok_secret", "proof of it", "credential"):
        assert secret not in repr(made)
    assert of_token("ptok_secret").token == "ptok_secret"


@pytest.mark.parametrize("required", [None, Decimal("0.05")])
def test_refusals_and_balances_are_told_outside_of_responses_too(required: Decimal | None) -> None:
    """After a submit that nothing was open for."""
    head = {"event_id": "e", "timestamp": 1, "session_id": "s"}
    refusal = Refusal("token_invalid", "no", balance_required=required)
    error = payment_error(refusal, head)  # type: ignore[arg-type]
    assert (error.code, error.balance_required, error.response_id) == (
        "token_invalid", None if required is None else "0.05", None,
    )  # fmt: skip
    balance = payment_balance(Balance("USD", Decimal("1.5"), AT), head)  # type: ignore[arg-type]
    assert (balance.balance, balance.expires_at) == ("1.50", int(AT.timestamp()))
