"""Payments of the run in hand: it goes on only as far as it is paid for."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

from perdure.activities.contracts import PAYMENT, PayInput, PayResult
from perdure.errors import InvalidInput, PaymentMissing
from perdure.uap.recorded_usage import known_cost
from perdure.workflows import calls
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.step import totals


class Paying:
    """What is held for one run. An agent that costs its callers nothing has nothing of it."""

    def __init__(self, run: RunInHand) -> None:
        """Pay for `run`."""
        self._run = run
        self._covers: Decimal | None = None
        self._lock = asyncio.Lock()

    async def ensure(self) -> None:
        """Return once the run may go on.

        Raises:
            InvalidInput: its model has no price, so nobody knows what it costs.
            PaymentMissing: nobody paid in time, or what was to pay is refused for good.
            asyncio.CancelledError: the run is to be cancelled.
        """
        if self._run.frame.spec.paid is None:
            return
        async with self._lock:
            spent = self._spent()
            while self._covers is None or spent >= self._covers:
                await self._pay(spent)

    def _spent(self) -> Decimal:
        run = self._run
        return known_cost([totals(run.state.usage), *run.used_besides().values()])

    async def _pay(self, spent: Decimal) -> None:
        run, spec = self._run, self._run.frame.spec
        run.parking.check_cancelled()
        if not spec.priced:
            raise InvalidInput(
                f"agent {spec.name!r} is paid for by what it uses, but its model has no price; add it to the setting `prices`"
            )
        assert spec.paid is not None
        call = PayInput(run.start.tenant, run.start.session, run.frame.run, format(spent, "f"), spec.paid)
        result = await calls.pay(call)
        run.check_kind(result.kind)
        if result.kind == "open":
            await run.parking.wait_for_answer(_wait(call, result), expires_s=result.expires_s)
        elif result.kind == "held":
            self._covers = Decimal(result.covers)
        elif result.kind == "expired":
            raise PaymentMissing(
                f"nobody paid for the run within {spec.paid.wait_s:g} s", run_id=run.frame.run, code="payment_timeout"
            )
        else:
            raise PaymentMissing(result.message, run_id=run.frame.run, code=result.code)


def _wait(call: PayInput, result: PayResult) -> dict[str, Any]:
    return {"id": result.wait, "kind": PAYMENT, "message": call.run, "index": result.place, "asked": result.asked}
