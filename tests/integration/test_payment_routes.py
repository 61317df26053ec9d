"""Payments over HTTP: headers, the route that pays for a run that waits, gates of an app's own, and nothing of it left."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import uuid
from collections.abc import AsyncGenerator, Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
import pytest_asyncio

from perdure.runtime.sessions import Sessions
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.paid_agents import ENVIRONMENT
from tests.integration.paying import Purse, said, worker
from tests.integration.stack import ROOT, Stack, WorkerProcess, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
GATED = "tests.integration.gated_agents:app"


def new_name() -> str:
    """A name of its own in the ledger."""
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    """An API process that knows no app, and a worker of the paid agents."""
    process = ApiProcess(stack).wait_ready()
    with worker(stack):
        yield process
    process.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(api: ApiProcess) -> AsyncGenerator[httpx.AsyncClient]:
    """Speaks to it."""
    async with api.client() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(stack: Stack) -> AsyncGenerator[Sessions]:
    """The same servers, from inside."""
    async with stack.connect() as opened:
        yield opened


async def submit(client: httpx.AsyncClient, agent: str, name: str, **headers: str) -> httpx.Response:
    """Hand an input in."""
    body = {"agent": agent, "input": said(name), "mode": "wait", "wait_s": 60}
    return await client.post("/runs", json=body, headers=headers)


async def wait_of(client: httpx.AsyncClient, run: str) -> dict[str, Any]:
    """What the run waits for, once it does."""

    async def found() -> dict[str, Any] | None:
        waits = checked(await client.get("/waits"))["waits"]
        return next((wait for wait in waits if wait["run"] == run), None)

    return await eventually(found, what="a wait")


@pytest.mark.parametrize("form", ["X-Payment-Token", "X-PAYMENT", "object"])
async def test_a_header_pays(client: httpx.AsyncClient, sessions: Sessions, form: str) -> None:
    """Under its old name, its new one, and as an object in base64; the same request again is the same run."""
    purse, name = await Purse.funded(sessions, "0.06"), new_name()
    given = json.dumps({"scheme": "token", "token": purse.token}).encode()
    value = base64.b64encode(given).decode() if form == "object" else purse.token
    header = {form if form != "object" else "x-payment": value, "Idempotency-Key": name}
    run = checked(await submit(client, "teller", name, **header))
    assert run["status"] == "completed"
    assert f"answer of {name}" in json.dumps(run["turn"])
    again = checked(await submit(client, "teller", name, **header))
    assert again["run"] == run["run"]

    async def settled() -> bool:
        return await purse.stands() == (Decimal("0.04"), Decimal(0))

    await eventually(settled, what="the settlement")


async def test_a_bad_token_is_answered_402_and_nothing_is_stored(client: httpx.AsyncClient) -> None:
    """With the ways to pay; and what cannot be read is said to be unreadable, without a word of it."""
    response = await submit(client, "teller", new_name(), **{"X-Payment-Token": "ptok_nobodys"})
    assert code_of(response, 402) == "payment_required"
    problem = response.json()
    assert (problem["reason"], problem["can_retry"]) == ("token_invalid", True)
    assert problem["accepts"] == [{"scheme": "token", "amount": "0.05", "currency": "USD"}]
    bad = base64.b64encode(b'{"scheme": 1, "token": "very secret"}').decode()
    refused = await submit(client, "teller", new_name(), **{"X-PAYMENT": bad})
    assert code_of(refused, 422) == "invalid_input"
    assert "very secret" not in refused.text
    options = {"payment": {"scheme": "token", "source": {"sha256": "0" * 64}}}
    forged = await client.post("/runs", json={"agent": "teller", "input": "x", "options": options})
    assert code_of(forged, 422) == "invalid_input"


async def test_a_run_that_waits_is_paid_for(client: httpx.AsyncClient, sessions: Sessions, stack: Stack) -> None:
    """The list of waits says what; a refusal leaves it open; and afterwards nothing of the token is anywhere."""
    purse, name = await Purse.funded(sessions, "1"), new_name()
    run = checked(await submit(client, "teller", name), 202)["run"]
    wait = await wait_of(client, run)
    assert (wait["kind"], wait["asked"]["amount"], wait["asked"]["schemes"]) == (
        "payment",
        "0.05",
        [{"scheme": "token"}],
    )
    answered = await client.post(f"/waits/{wait['wait']}", json={"answer": {"scheme": "token", "token": purse.token}})
    assert code_of(answered, 422) == "invalid_input"
    refused = await client.post(f"/runs/{run}/payment", json={"scheme": "token", "token": "ptok_nobodys"})
    assert code_of(refused, 402) == "payment_required"
    paid = await client.post(f"/runs/{run}/payment", json={"scheme": "token", "token": purse.token})
    assert checked(paid) == {"run": run, "scheme": "token"}

    async def completed() -> bool:
        return checked(await client.get(f"/runs/{run}"))["status"] == "completed"

    await eventually(completed, what="the run to complete")
    late = await client.post(f"/runs/{run}/payment", json={"scheme": "token", "token": purse.token})
    assert code_of(late, 409) == "no_payment_open"
    unknown = await client.post(f"/runs/{uuid.uuid4()}/payment", json={"scheme": "token", "token": "x"})
    assert code_of(unknown, 404) == "unknown_run"
    await check_nowhere(stack, sessions, wait["session"], purse.token)


async def check_nowhere(stack: Stack, sessions: Sessions, session: str, secret: str) -> None:
    """A secret is in no row, no history and no log."""
    async with sessions.database.driver() as connection:
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'perdure'")
        for table in (row["tablename"] for row in tables):
            sql = f"select count(*) from perdure.{table} t where t::text like $1 or t::text like $2"
            found = await connection.fetchval(sql, f"%{secret}%", f"%{secret.encode().hex()}%")
            assert found == 0, table
    handle = sessions.client.get_workflow_handle(sessions.key_of(session).workflow_id)
    assert secret not in (await handle.fetch_history()).to_json()
    for log in stack.folder.glob("*.log"):
        assert secret not in log.read_text(), log


async def test_the_command_line_pays(client: httpx.AsyncClient, sessions: Sessions, stack: Stack) -> None:
    """`perdure payments pay RUN` with the token in the environment."""
    purse, name = await Purse.funded(sessions, "1"), new_name()
    run = checked(await submit(client, "teller", name), 202)["run"]
    await wait_of(client, run)
    environment = {**os.environ, **stack.addressing, "PERDURE_PAYMENT_TOKEN": purse.token}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli.main", "payments", "pay", run),
        cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    assert (process.returncode, out.decode()) == (0, f"paid; run {run} goes on\n"), error.decode()

    async def completed() -> bool:
        return checked(await client.get(f"/runs/{run}"))["status"] == "completed"

    await eventually(completed, what="the run to complete")


async def test_a_gate_of_the_apps_own(client: httpx.AsyncClient, stack: Stack) -> None:
    """An API that has the app takes its scheme; one that has not says which app it needs; both tell what is refused for good."""
    cashier = WorkerProcess(stack, GATED, **ENVIRONMENT, PERDURE_TASK_QUEUE="cards").wait_ready()
    own = ApiProcess(stack, "--app", GATED).wait_ready()
    card = {"X-PAYMENT": base64.b64encode(b'{"scheme": "card", "proof": "5-anna"}').decode()}
    try:
        missing = await submit(client, "cashier", new_name(), **card)
        assert code_of(missing, 503) == "server_error"
        assert "--app" in missing.json()["detail"]
        async with own.client() as other:
            token = await submit(other, "cashier", new_name(), **{"X-Payment-Token": "ptok_x"})
            assert (code_of(token, 402), token.json()["accepts"][0]["network"]) == ("payment_required", "test")
            gone = base64.b64encode(b'{"scheme": "card", "proof": "0-gone"}').decode()
            refused = await submit(other, "cashier", new_name(), **{"X-PAYMENT": gone})
            assert (code_of(refused, 402), refused.json()["can_retry"]) == ("payment_required", False)
            for _ in range(2):
                assert checked(await submit(other, "cashier", new_name(), **card))["status"] == "completed"
            short = checked(await submit(other, "cashier", new_name(), **card), 202)["run"]
            assert (await wait_of(other, short))["asked"]["schemes"] == [{"scheme": "card", "network": "test"}]
            paid = await other.post(f"/runs/{short}/payment", json={"scheme": "card", "proof": "100-bert"})
            assert checked(paid) == {"run": short, "scheme": "card"}

            async def completed() -> bool:
                return checked(await other.get(f"/runs/{short}"))["status"] == "completed"

            await eventually(completed, what="the run to complete")
            for name in ("100-away", "100-broken"):  # asked again, by the run itself and by the worker's sweep
                proof = base64.b64encode(json.dumps({"scheme": "card", "proof": name}).encode()).decode()
                assert (
                    checked(await submit(other, "cashier", new_name(), **{"X-PAYMENT": proof}))["status"] == "completed"
                )

            async def all_settled() -> bool:
                return not any(
                    json.loads(stack.ledger.with_name("cards.json").read_text() or "{}").get("holds", {"": 1}).values()
                )

            await eventually(all_settled, what="all to be settled")
    finally:
        own.kill()
        cashier.kill()
    book = json.loads(stack.ledger.with_name("cards.json").read_text())
    assert {card: sorted(charges.values()) for card, charges in book["charges"].items()} == {
        "5-anna": ["0.02", "0.02"], "100-bert": ["0.02"], "100-away": ["0.02"], "100-broken": ["0.02"],
    }  # fmt: skip
    assert sorted(book["failed"]) == [["100-away", "hold"], ["100-away", "settle"], ["100-broken", "settle"]]
