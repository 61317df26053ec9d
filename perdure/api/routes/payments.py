"""Paying for a run that waits for it."""

from __future__ import annotations

from fastapi import APIRouter

from perdure.api import shapes
from perdure.api.access import Runner
from perdure.api.answers import Answer
from perdure.api.models import PayRun
from perdure.api.openapi import PAYMENT_NEEDED
from perdure.api.parameters import RunId, known_run_id
from perdure.api.problems import Refused
from perdure.errors import PaymentNeeded
from perdure.uap.payments import Refusal, SubmittedPayment
from perdure.upp.json_value import JSONObject

router = APIRouter(prefix="/api", tags=["runs"])


@router.post("/runs/{run}/payment", operation_id="payRun", response_model=shapes.PaidRun, responses=PAYMENT_NEEDED)
async def pay(caller: Runner, run: RunId, body: PayRun) -> Answer:
    """Pay for a run that waits for it; it goes on. What is refused leaves it waiting."""
    ident = known_run_id(run)
    payment = SubmittedPayment(
        body.scheme, body.token, body.proof, body.credential, amount=body.amount, network=body.network
    )
    taken = await caller.payments.submit(ident, payment, by=caller.principal.name)
    if taken is None:
        raise Refused(409, "no_payment_open", f"run {ident} waits for no payment")
    if isinstance(taken, Refusal):
        raise PaymentNeeded(taken.message, code=taken.code, can_retry=taken.can_retry)
    told: JSONObject = {"run": ident, "scheme": body.scheme}
    return Answer(told)
