"""Payments in the headers of requests. Their secrets are handed on to the agent's gate, and stored nowhere."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, cast

from fastapi import Depends, Header

from perdure.api.access import Caller
from perdure.errors import InvalidInput, PaymentNeeded
from perdure.uap.options import RunOptions
from perdure.uap.payments import Refusal, SubmittedPayment, ways_to_pay
from perdure.upp.json_value import JSONObject, JSONValue, loads

X_PAYMENT = "X-PAYMENT"
OLDER = "X-Payment-Token"
_LONGEST = 16_384


def submitted_by_headers(headers: Mapping[str, str]) -> SubmittedPayment | None:
    """What a request pays with; None if it says nothing of it.

    Args:
        headers: of the request; names in any case. `X-PAYMENT` is a payment token, or base64 of a JSON object {"scheme",
            "token"?, "proof"?, "credential"?, "amount"?, "network"?}. `X-Payment-Token` is a token.

    Raises:
        InvalidInput: a payment that cannot be read.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    given = lowered.get(X_PAYMENT.lower()) or lowered.get(OLDER.lower())
    if not given:
        return None
    if len(given) > _LONGEST:
        raise InvalidInput(f"the header {X_PAYMENT} may have {_LONGEST:,} characters")
    found = _object(given) if lowered.get(X_PAYMENT.lower()) else None
    return SubmittedPayment("token", token=given) if found is None else read_payment(found)


def read_payment(given: JSONObject) -> SubmittedPayment:
    """A payment as a JSON object says it.

    Raises:
        InvalidInput: a member that is missing, unknown or of another type; what stands there is not told.
    """
    unknown = sorted(set(given) - {"scheme", "token", "proof", "credential", "amount", "network"})
    if unknown:
        raise InvalidInput(f"a payment has no {', '.join(unknown)[:80]!r}")
    for name in ("scheme", "token", "proof", "amount", "network"):
        if not isinstance(given.get(name), str | None):
            raise InvalidInput(f"a payment's {name!r} must be text")
    scheme, credential = given.get("scheme"), given.get("credential")
    if not isinstance(scheme, str):
        raise InvalidInput("a payment needs its 'scheme', such as token")
    if not isinstance(credential, str | dict | None):
        raise InvalidInput("a payment's 'credential' must be text or an object")
    texts = {name: cast("str | None", given.get(name)) for name in ("token", "proof", "amount", "network")}
    return SubmittedPayment(scheme, credential=credential, **texts)


async def with_payment(caller: Caller, agent: str, payment: SubmittedPayment | None, options: RunOptions) -> RunOptions:
    """The options of a run that a request pays for. Without a payment the run itself says what it waits for.

    Whether the balance suffices is seen by the run: a request that is sent again is the same one, however little is left.

    Raises:
        PaymentNeeded: the payment is refused.
        UnknownAgent: no worker has registered the agent.
        GateMissing: this process does not have the agent's gate.
    """
    if payment is None:
        return options
    paid = await caller.payments.policy(agent)
    source = await caller.payments.accept(agent, payment, covers=False)
    if isinstance(source, Refusal):
        raise PaymentNeeded(
            source.message, code=source.code, accepts=ways_to_pay(paid) if paid else (), can_retry=source.can_retry
        )
    return replace(options, payment=source)


def _object(text: str) -> JSONObject | None:
    """The object that a header's base64 holds; None if it is a plain token."""
    try:
        value: JSONValue = loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _paying(
    payment: Annotated[
        str | None, Header(alias=X_PAYMENT, description="What pays for the run: a payment token.")
    ] = None,
    token: Annotated[str | None, Header(alias=OLDER, description="The same under its older name.")] = None,
) -> SubmittedPayment | None:
    return submitted_by_headers({X_PAYMENT: payment or "", OLDER: token or ""})


Paying = Annotated[SubmittedPayment | None, Depends(_paying)]
"""What a request pays with, as a route's parameter."""
