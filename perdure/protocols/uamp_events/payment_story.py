"""Payments of one response, out of the event log, and payments that a client submits. Source: UAMP 1.0, sections 3.3, 5.15, 7.2."""

from __future__ import annotations

from typing import TypeAlias, cast

from perdure.protocols.uamp_events.client_events import Payment
from perdure.protocols.uamp_events.log_row import Head, LogRow, RowHeads
from perdure.protocols.uamp_events.surrounding_events import (
    PaymentAccepted,
    PaymentBalance,
    PaymentError,
    PaymentRequired,
    PaymentRequirements,
)
from perdure.uap.payments import Balance, Refusal, SubmittedPayment, plain_amount
from perdure.upp.json_value import JSONObject

PaymentEvent: TypeAlias = PaymentRequired | PaymentAccepted | PaymentError | PaymentBalance


class PaymentStory:
    """What was asked for, paid and settled.

    Attributes:
        wait: id of the wait that a payment answers; None if none is asked for.
        required: the event that asks for it.
        is_held: something is held, so that it will be settled.
        is_settled: it is.
    """

    def __init__(self, response_id: str) -> None:
        """Begin with nothing."""
        self._response_id = response_id
        self.wait: str | None = None
        self.required: PaymentRequired | None = None
        self.is_held = False
        self.is_settled = False

    def take(self, heads: RowHeads, row: LogRow) -> list[PaymentEvent]:
        """The events of a row of the run's."""
        data = row.data
        match row.type:
            case "payment.required":
                return [self._require(heads.next(), data)]
            case "payment.held":
                return self._hold(heads, data)
            case "payment.refused":
                return [payment_error(Refusal.from_json(data), heads.next(), self._response_id)]
            case "payment.settled":
                self.is_settled = True
                return [_settled(heads.next(), data)]
            case _:
                return []

    def ended(self) -> None:
        """The run has ended: nothing is asked for any more."""
        self.wait = self.required = None

    def _require(self, head: Head, data: JSONObject) -> PaymentRequired:
        self.wait = str(data["wait"])
        asked = {name: value for name, value in data.items() if name != "wait"}
        requirements = PaymentRequirements.model_validate(asked)
        self.required = PaymentRequired(**head, response_id=self._response_id, requirements=requirements)
        return self.required

    def _hold(self, heads: RowHeads, data: JSONObject) -> list[PaymentEvent]:
        """It is told once that a payment was accepted: only where one had been asked for."""
        self.is_held = True
        asked, self.wait, self.required = self.wait, None, None
        if asked is None:
            return []
        accepted = PaymentAccepted(
            **heads.next(),
            payment_id=str(data["payment"]),
            balance_remaining=cast("str | None", data.get("balance")),
            expires_at=cast("int | None", data.get("expires_at")),
            response_id=self._response_id,
        )
        return [accepted]


def submitted(payment: Payment) -> SubmittedPayment:
    """What a client pays with."""
    return SubmittedPayment(
        scheme=payment.scheme,
        token=payment.token,
        proof=payment.proof,
        credential=payment.ap2_credential,
        amount=payment.amount,
        network=payment.network,
    )


def of_token(token: str) -> SubmittedPayment:
    """A payment token that a client left for what is to come."""
    return SubmittedPayment("token", token=token)


def payment_error(refusal: Refusal, head: Head, response_id: str | None = None) -> PaymentError:
    """Why a payment was refused."""
    required, current = refusal.balance_required, refusal.balance_current
    return PaymentError(
        **head,
        code=refusal.code,
        message=refusal.message,
        balance_required=None if required is None else plain_amount(required),
        balance_current=None if current is None else plain_amount(current),
        can_retry=refusal.can_retry,
        response_id=response_id,
    )


def payment_balance(balance: Balance, head: Head) -> PaymentBalance:
    """What a payer has left."""
    expires = balance.expires_at
    return PaymentBalance(
        **head,
        balance=plain_amount(balance.available),
        currency=balance.currency,
        expires_at=None if expires is None else int(expires.timestamp()),
    )


def _settled(head: Head, data: JSONObject) -> PaymentBalance:
    return PaymentBalance(
        **head,
        balance=str(data["balance"]),
        currency=str(data["currency"]),
        low_balance_warning=bool(data.get("low_balance_warning")),
        estimated_remaining=cast("int | None", data.get("estimated_remaining")),
        expires_at=cast("int | None", data.get("expires_at")),
    )
