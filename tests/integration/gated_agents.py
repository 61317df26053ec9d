"""An agent that is paid for through a gate of its app's own: cards, in a file that several processes share.

A card's number is its proof. It begins with its limit in cents, such as "500-anna"; "0-..." is refused for good. With "-away"
at its end the gate cannot be reached at the first hold and the first settlement, with "-broken" the latter raises.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from perdure import App
from perdure.errors import ServerUnavailable
from perdure.payments import (
    Balance,
    Paid,
    PaymentHold,
    PaymentScheme,
    Refusal,
    Settled,
    SubmittedPayment,
)
from perdure.upp.json_value import JSONObject
from tests.integration.paid_agents import paid_agent


class CardGate:
    """See `PaymentGate`. Everything is in one file, by card: what is held by whom, and what was charged for which run."""

    name = "cards"
    schemes: Sequence[PaymentScheme] = (PaymentScheme("card", network="test"),)

    @contextmanager
    def _book(self) -> Generator[dict[str, Any]]:
        path = Path(os.environ["PERDURE_TEST_LEDGER"]).with_name("cards.json")
        with path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            book: dict[str, Any] = json.loads(file.read() or '{"holds": {}, "charges": {}}')
            try:
                yield book
            finally:
                file.seek(0)
                file.truncate()
                file.write(json.dumps(book))

    async def accept(
        self, tenant: str, payment: SubmittedPayment, *, amount: Decimal | None, currency: str | None
    ) -> JSONObject | Refusal:
        """See `PaymentGate.accept`."""
        if not payment.proof or not payment.proof.partition("-")[0].isdecimal():
            return Refusal("payment_failed", "no card of that number")
        if payment.proof.startswith("0-"):
            return Refusal("mandate_revoked", "the card was withdrawn", can_retry=False)
        return {"card": payment.proof}

    async def hold(self, wanted: PaymentHold, source: JSONObject) -> Balance | Refusal:
        """See `PaymentGate.hold`."""
        card = str(source["card"])
        with self._book() as book:
            self._fail(book, card, "hold", "-away")
            holds = book["holds"].setdefault(card, {})
            left = self._left(book, card) + Decimal(holds.get(wanted.id, {}).get("amount", 0))
            if left < wanted.amount:
                return Refusal("insufficient_balance", "the card's limit is reached", balance_required=wanted.amount)
            holds[wanted.id] = {"run": wanted.run, "amount": str(wanted.amount)}
            return Balance("USD", left - wanted.amount)

    async def settle(self, tenant: str, run: str, cost: Decimal) -> Settled:
        """See `PaymentGate.settle`."""
        with self._book() as book:
            for card, holds in book["holds"].items():
                mine = [ident for ident, hold in holds.items() if hold["run"] == run]
                if mine:
                    self._fail(book, card, "settle", "-away", "-broken")
                for ident in mine:
                    del holds[ident]
                if mine:
                    book["charges"].setdefault(card, {}).setdefault(run, str(cost))
                charged = book["charges"].get(card, {}).get(run)
                if charged is not None:
                    return Settled(Decimal(charged), Decimal(0), Balance("USD", self._left(book, card)))
        return Settled(Decimal(0), Decimal(0), None)

    async def balance(self, tenant: str, source: JSONObject) -> Balance | Refusal:
        """See `PaymentGate.balance`."""
        with self._book() as book:
            return Balance("USD", self._left(book, str(source["card"])))

    def _fail(self, book: dict[str, Any], card: str, what: str, *ends: str) -> None:
        """Fail the first time, if the card is one of those."""
        failed = book.setdefault("failed", [])
        if card.endswith(ends) and [card, what] not in failed:
            failed.append([card, what])
            raise (
                ServerUnavailable("the gate is away") if card.endswith("-away") else RuntimeError("the gate is broken")
            )

    def _left(self, book: dict[str, Any], card: str) -> Decimal:
        held = sum((Decimal(hold["amount"]) for hold in book["holds"].get(card, {}).values()), Decimal(0))
        charged = sum(map(Decimal, book["charges"].get(card, {}).values()), Decimal(0))
        return Decimal(card.partition("-")[0]) / 100 - held - charged


app = App(agents=[paid_agent("cashier")], paid={"cashier": Paid(hold="0.02")}, gate=CardGate())
