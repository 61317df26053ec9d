"""`perdure payments`: balances are opened, filled, paid from by tokens that are shown once, and told movement by movement."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from tests.acceptance.terminal import Terminal


class Tenant:
    """The commands, for a tenant of the test's own."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._option = ("--tenant", f"payer-{uuid.uuid4().hex}")

    def __call__(self, *arguments: str, **more: Any) -> Any:
        return self._terminal("payments", *arguments, *self._option, **more)


@pytest.fixture
def tenant(perdure: Terminal) -> Tenant:
    """A tenant without accounts."""
    return Tenant(perdure)


def test_a_balance_from_its_opening_to_its_end(tenant: Tenant) -> None:
    """A top-up counts once; the token is shown once; a closed account takes nothing more."""
    assert "no payment accounts" in tenant("accounts").err
    account = tenant("open", "acme's purse").out.strip()
    assert tenant("top-up", account, "10.50", "--ref", "invoice 7").out == "the balance is 10.50 USD\n"
    again = tenant("top-up", account, "10.5", "--ref", "invoice 7", "--json").json
    assert (again["kind"], again["balance"]) == ("repeated", "10.50")
    issued = tenant("issue", account, "--days", "30")
    token = issued.out.strip()
    assert token.startswith("ptok_")
    assert "cannot be shown again" in issued.err
    (listed,) = tenant("accounts", "--json").json["accounts"]
    assert (listed["id"], listed["name"], listed["balance"], listed["held"], listed["currency"]) == (
        account, "acme's purse", "10.50", "0.00", "USD",
    )  # fmt: skip
    (entry,) = tenant("entries", account, "--json").json["entries"]
    assert (entry["kind"], entry["ref"], entry["amount"], entry["balance"]) == ("top_up", "invoice 7", "10.50", "10.50")
    shown = tenant("accounts").out + tenant("entries", account).out + json.dumps(listed)
    assert "invoice 7" in shown
    assert token not in shown
    assert tenant("revoke", stdin=f"{token}\n").out == "the token is revoked\n"
    assert "10.50 USD are left" in tenant("close", account).out
    tenant("top-up", account, "1", code=2).check_error("closed")


def test_what_cannot_be_is_refused(tenant: Tenant) -> None:
    """With a message that names it."""
    account = tenant("open", "purse", "--json").json["id"]
    nobodys = str(uuid.uuid4())
    tenant("open", " ", code=2).check_error("NAME")
    tenant("open", "purse", "--currency", "US DOLLARS", code=2).check_error("US DOLLARS")
    for amount in ("much", "-1", "0", "NaN"):
        tenant("top-up", account, "--", amount, code=2)
    tenant("top-up", nobodys, "1", code=2).check_error(nobodys)
    tenant("issue", nobodys, code=2).check_error(nobodys)
    tenant("top-up", account, "1", "--ref", "same")
    tenant("top-up", account, "2", "--ref", "same", code=2).check_error("another amount")
    tenant("revoke", stdin="ptok_nobody's\n", code=2).check_error("no such token")
    tenant("revoke", stdin="\n", code=2).check_error("stdin")
    tenant("pay", nobodys, stdin="ptok_x\n", code=2).check_error(nobodys)
