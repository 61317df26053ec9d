"""An API process that dies while it takes an envelope: what was kept is done once, by whichever process is there."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest
import pytest_asyncio

from perdure.store.database import Database
from tests.conformance.envelope_lines import Asked, HttpLine
from tests.conformance.envelope_peer import Envelope
from tests.conformance.envelope_server import TENANT, EnvelopeServer, envelope_server
from tests.conformance.test_uamp_envelope_desk import texts
from tests.conformance.uamp_agents import MIRROR, call, gate, plan
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def served(stack: Stack) -> Iterator[EnvelopeServer]:
    """A worker, and an API that nobody kills; the ones that die are replicas of it."""
    with envelope_server(stack) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ann(served: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    async with served.http("ann") as line:
        yield line


async def send_to_doomed(served: EnvelopeServer, envelope: Envelope, point: str) -> None:
    """Hand an envelope to a replica that dies at a crash point, and so never answers."""
    doomed = served.new_api(PERDURE_CRASH_AT=point).wait_ready()
    try:
        async with served.http("ann", url=doomed.url.replace("127.0.0.1", "localhost")) as line:
            with pytest.raises(httpx.HTTPError):
                await line.post(envelope)
        doomed.wait_dead()
    finally:
        doomed.kill()


async def count_runs(served: EnvelopeServer, envelope: Envelope) -> int:
    """How many inputs an ask has become, over all sessions; also under a key that only begins as its own does."""
    database = Database(served.database_url, pool_size=1)
    try:
        async with database.driver() as connection:
            return await connection.fetchval(
                "select count(*) from perdure.inputs i join perdure.envelope_exchanges e"
                " on i.tenant_id = e.tenant_id and starts_with(i.key, 'uamp:' || e.id)"
                " where e.tenant_id = $1 and e.envelope = $2",
                TENANT,
                envelope["id"],
            )
    finally:
        await database.close()


@pytest.mark.parametrize("point", ["envelope.kept", "submit.stored", "envelope.submitted", "envelope.begun"])
async def test_an_ask_runs_once_though_its_process_dies(served: EnvelopeServer, ann: HttpLine, point: str) -> None:
    """Nobody sends it again: the sweep of another process begins it; a resend then finds its stream."""
    stream_id = f"kill-{uuid.uuid4().hex}"
    ask = ann.peer.signed(f"survive {point}", stream_id=stream_id)
    await send_to_doomed(served, ask, point)
    found = await ann.deltas(Asked(ask, stream_id, f"/v1/stream/{stream_id}"))
    assert found[-1]["payload"]["text"] == f"echo: survive {point}"
    again = await ann.opened(ask)
    assert again.stream_id == stream_id
    assert await ann.deltas(again) == found
    assert await count_runs(served, ask) == 1
    heard = texts(await ann.answer(MIRROR, reply_to=ask["id"]))
    assert heard == [f"survive {point}", f"echo: survive {point}", MIRROR]


async def test_a_resend_at_once_and_the_sweep_run_an_ask_once(served: EnvelopeServer, ann: HttpLine) -> None:
    """A sender that gets no answer sends again, and need not wait for the sweep."""
    ask = ann.peer.signed("twice")
    await send_to_doomed(served, ask, "envelope.submitted")
    found = await ann.deltas(await ann.opened(ask))
    assert found[-1]["payload"]["text"] == "echo: twice"
    assert await count_runs(served, ask) == 1


async def test_what_stands_before_an_ask_stands_there_once(served: EnvelopeServer, ann: HttpLine) -> None:
    first = await ann.ask("begin")
    await ann.deltas(first)
    await ann.send(ann.peer.signed("it rains", intent="inform", reply_to=first.envelope["id"]))
    stream_id = f"kill-{uuid.uuid4().hex}"
    ask = ann.peer.signed(MIRROR, reply_to=first.envelope["id"], stream_id=stream_id)
    await send_to_doomed(served, ask, "envelope.submitted")
    found = await ann.deltas(Asked(ask, stream_id, f"/v1/stream/{stream_id}"))
    assert texts(found[-1]["payload"]["text"]) == ["begin", "echo: begin", "it rains", MIRROR]


@pytest.mark.parametrize("point", ["envelope.inform_taken", "envelope.inform_submitted"])
async def test_an_inform_is_told_once_though_its_process_dies(
    served: EnvelopeServer, ann: HttpLine, point: str
) -> None:
    """Whether it joins the run that goes on, or stands before the next message."""
    name = f"kill-{uuid.uuid4().hex}"
    asked = await ann.ask(plan({"say": "wait", "calls": [call("waiting", name=name)]}, {"say": "done"}))
    await until_running(ann, asked)
    told = ann.peer.signed("it rains", intent="inform", reply_to=asked.envelope["id"])
    await send_to_doomed(served, told, point)
    await ann.send(told)
    await until_joined(served, told)
    served.open_gate(name)
    await ann.deltas(asked)
    heard = texts(await ann.answer(MIRROR, reply_to=asked.envelope["id"]))
    assert heard.count("it rains") == 1


async def until_running(ann: HttpLine, asked: Asked) -> None:
    """Return when an ask has said something."""
    coming = ann.follow(asked.location)
    async for delta in coming:
        if delta["type"] == "chunk":
            break
    await coming.aclose()


async def until_joined(served: EnvelopeServer, told: Envelope) -> None:
    """Return when an inform counts as told."""
    database = Database(served.database_url, pool_size=1)
    query = "select joined from perdure.envelopes where tenant_id = $1 and id = $2"

    async def joined() -> bool:
        async with database.driver() as connection:
            return bool(await connection.fetchval(query, TENANT, told["id"].removeprefix("urn:uuid:")))

    await eventually(joined, what="an inform that has joined")
    await database.close()


@pytest.mark.parametrize("point", ["envelope.kept", "envelope.cancelling"])
async def test_a_cancel_that_was_kept_is_done(served: EnvelopeServer, ann: HttpLine, point: str) -> None:
    """The stream ends with it, and the run, though the process that took it died."""
    name = f"kill-{uuid.uuid4().hex}"
    asked = await ann.ask(plan({"say": ["begun ", gate(name), "never"]}))
    await until_running(ann, asked)
    await send_to_doomed(served, ann.peer.cancel(asked.envelope), point)
    found = await ann.deltas(asked)
    assert found[-1]["type"] == "cancel"
    database = Database(served.database_url, pool_size=1)
    query = (
        "select r.status from perdure.runs r join perdure.envelope_exchanges e"
        " on e.tenant_id = r.tenant_id and e.run_id = r.id where e.tenant_id = $1 and e.envelope = $2"
    )

    async def cancelled() -> bool:
        async with database.driver() as connection:
            return await connection.fetchval(query, TENANT, asked.envelope["id"]) == "cancelled"

    await eventually(cancelled, what="a cancelled run")
    await database.close()


@pytest.mark.parametrize("point", ["envelope.answering", "envelope.answered"])
async def test_a_proposal_is_answered_once_though_the_process_dies(
    served: EnvelopeServer, ann: HttpLine, point: str
) -> None:
    """Before the answer is stored it can be given again; after that its sender has it."""
    asked = await ann.opened(ann.peer.signed(f"shall we {point}?", intent="propose"))
    headers = {"authorization": f"Bearer {await served.bearer('eve', 'read', 'approve')}"}
    trust = served.certificates.trust()
    async with httpx.AsyncClient(base_url=served.url, verify=trust, headers=headers, timeout=60) as operator:
        listed = (await operator.get("/api/proposals")).json()["proposals"]
        (path,) = [f"/api/proposals/{item['proposal']}" for item in listed if item["envelope"] == asked.envelope["id"]]
        doomed = served.new_api(PERDURE_CRASH_AT=point).wait_ready()
        url = doomed.url.replace("127.0.0.1", "localhost")
        with pytest.raises(httpx.HTTPError):
            await operator.post(f"{url}{path}", json={"decision": "confirm"})
        doomed.wait_dead()
        again = await operator.post(path, json={"decision": "deny"})
    (last,) = await ann.deltas(asked)
    if point == "envelope.answering":
        assert (again.status_code, last["payload"]["intent"]) == (200, "deny")
    else:
        assert (again.status_code, last["payload"]["intent"]) == (409, "confirm")
