"""What tests of payments share: funded tokens, submitting with them, and what balances and logs say."""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from perdure.runtime.payments import OpenPayment, Payments
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from perdure.store.payments.accounts import issue_token, list_entries, open_account, top_up
from perdure.store.payments.ledger_gate import known_gates
from perdure.uap.options import RunOptions
from perdure.uap.payments import SubmittedPayment
from tests.integration.facts import read_facts
from tests.integration.paid_agents import ENVIRONMENT
from tests.integration.stack import Stack, WorkerProcess, eventually

APP = "tests.integration.paid_agents:app"


@contextmanager
def worker(stack: Stack, **environment: str) -> Generator[WorkerProcess]:
    """A worker of the paid agents, dead at the end."""
    process = WorkerProcess(stack, APP, **{**ENVIRONMENT, **environment}).wait_ready()
    try:
        yield process
    finally:
        process.kill()


def payments_of(sessions: Sessions) -> Payments:
    """Its payments, by the default gate."""
    return Payments(sessions, known_gates(sessions.database, None))


def by_token(token: str) -> SubmittedPayment:
    """A payment with a token."""
    return SubmittedPayment("token", token=token)


class Purse:
    """An account with a token, and what becomes of it."""

    def __init__(self, database: Database, tenant: str, account: str, token: str) -> None:
        self._database, self._tenant = database, tenant
        self.account, self.token = account, token

    @classmethod
    async def funded(cls, sessions: Sessions, amount: str, currency: str = "USD") -> Purse:
        """A new one with a balance."""
        database, tenant = sessions.database, sessions.tenant
        account = await open_account(database, tenant, f"purse {uuid.uuid4().hex}", currency)
        if Decimal(amount):
            await top_up(database, tenant, account.id, "first", Decimal(amount))
        return cls(database, tenant, account.id, await issue_token(database, tenant, account.id))

    async def top_up(self, amount: str) -> None:
        """More of it."""
        await top_up(self._database, self._tenant, self.account, uuid.uuid4().hex, Decimal(amount))

    async def stands(self) -> tuple[Decimal, Decimal]:
        """Balance and what is held of it; the balance is the sum of all entries, or something is wrong."""
        sql = "select balance, held from perdure.payment_accounts where tenant_id = $1 and id = $2"
        async with self._database.driver() as connection:
            row: Any = await connection.fetchrow(sql, self._tenant, self.account)
        entries = await list_entries(self._database, self._tenant, self.account, limit=10_000)
        total = sum((entry.amount if entry.kind == "top_up" else -entry.amount for entry in entries), Decimal(0))
        assert (row["balance"], entries[-1].balance if entries else Decimal(0)) == (total, total)
        return row["balance"], row["held"]

    async def charges(self) -> list[tuple[str, Decimal]]:
        """Run and amount of each charge, oldest first."""
        entries = await list_entries(self._database, self._tenant, self.account, limit=10_000)
        return [(str(entry.run), entry.amount) for entry in entries if entry.kind == "charge"]


def said(name: str, **more: Any) -> str:
    """An input."""
    return json.dumps({"name": name, **more})


async def submit(
    sessions: Sessions,
    text: str,
    purse: Purse | None = None,
    *,
    agent: str = "teller",
    covers: bool = True,
    **more: Any,
) -> RunHandle:
    """Hand an input in, paid by a purse if one is given, which must have what is needed now, or when the run begins."""
    if purse is None:
        return await sessions.submit(agent, text, **more)
    source = await payments_of(sessions).accept(agent, by_token(purse.token), covers=covers)
    assert isinstance(source, dict), source
    return await sessions.submit(agent, text, options=RunOptions(payment=source), **more)


async def until_asked(sessions: Sessions, handle: RunHandle, *, other_than: str = "") -> OpenPayment:
    """What the run waits for, once it does."""

    async def asked() -> OpenPayment | None:
        found = await payments_of(sessions).open(handle.id)
        return None if found is None or found.wait == other_than else found

    return await eventually(asked, what="a payment to be asked for")


async def until_settled(sessions: Sessions, handle: RunHandle) -> dict[str, Any]:
    """What the log says of the run's settlement, once it says it."""

    async def settled() -> dict[str, Any] | None:
        told = await payment_rows(sessions, handle)
        return next((data for kind, data in told if kind == "payment.settled"), None)

    return await eventually(settled, what="a settlement")


def answers_asked_for(stack: Stack, name: str) -> int:
    """How many answers a run's model was asked for; for one again where a busy machine lost the call."""
    return len({entry["number"] for entry in stack.entries(name, "model")})


async def payment_rows(sessions: Sessions, handle: RunHandle) -> list[tuple[str, dict[str, Any]]]:
    """The log's rows about the run's payments, in order."""
    events = (await read_facts(sessions, handle.session)).events
    return [(item.type, item.data) for item in events if item.run == handle.id and item.type.startswith("payment.")]
