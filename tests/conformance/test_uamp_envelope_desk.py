"""Checks 24 to 28, 36 and 42 to 44: replay, addresses, a busy server, and what cancel, inform and propose do."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from jwcrypto import jwk, jws

from tests.conformance.envelope_lines import Asked, HttpLine
from tests.conformance.envelope_peer import Envelope, new_id, payload_of, utc_text
from tests.conformance.envelope_server import EnvelopeServer, envelope_server
from tests.conformance.uamp_agents import MIRROR, gate, plan
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ann(envelopes: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    async with envelopes.http("ann") as line:
        yield line


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def bob(envelopes: EnvelopeServer) -> AsyncGenerator[HttpLine]:
    async with envelopes.http("bob") as line:
        yield line


@pytest.fixture(scope="module")
def small(
    stack: Stack, envelopes: EnvelopeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvelopeServer]:
    """A server in which one exchange may be in progress, and which knows the other one's peers."""
    keys = tmp_path_factory.mktemp("small") / "keys.json"
    keys.write_text(json.dumps({peer.did: {"keys": [peer.public]} for peer in envelopes.peers.values()}))
    with envelope_server(stack, uamp_max_open=1, uamp_keys=keys) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def at_small(small: EnvelopeServer, ann: HttpLine) -> AsyncGenerator[HttpLine]:
    """The same peer's connection to that one."""
    async with small.http(ann.peer) as line:
        yield line


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def operator(envelopes: EnvelopeServer) -> AsyncGenerator[httpx.AsyncClient]:
    """Somebody who may see and answer proposals."""
    key = await envelopes.bearer("eve", "read", "approve")
    headers = {"authorization": f"Bearer {key}"}
    trust = envelopes.certificates.trust()
    async with httpx.AsyncClient(base_url=f"{envelopes.url}/api", verify=trust, headers=headers, timeout=60) as client:
        yield client


def texts(answer: str) -> list[str]:
    """What a mirroring model was given."""
    messages: list[dict[str, Any]] = json.loads(answer)["messages"]
    return ["".join(item.get("text", "") for item in message["items"]) for message in messages]


async def test_e24_a_resend_is_answered_as_before_and_runs_nothing(ann: HttpLine) -> None:
    """Eight at once, then one more when it has ended: one stream, one run."""
    ask = ann.peer.signed("just once")
    responses = await asyncio.gather(*(ann.send(ask) for _ in range(8)))
    places = {(response.headers["location"], response.json()["stream_id"]) for response in responses}
    assert len(places) == 1
    ((location, stream_id),) = places
    first = await ann.deltas(Asked(ask, stream_id, location))
    assert (await ann.send(ask)).headers["location"] == location
    assert await ann.deltas(Asked(ask, stream_id, location)) == first
    heard = texts(await ann.answer(MIRROR, reply_to=ask["id"]))
    assert heard == ["just once", "echo: just once", MIRROR]


async def test_e25_another_content_under_the_same_id_is_refused(ann: HttpLine, bob: HttpLine) -> None:
    """Of the same sender; another one may have the same id."""
    ask = ann.peer.signed("the first")
    await ann.deltas(await ann.opened(ask))
    await ann.refused(ann.peer.signed("the second", id=ask["id"]), "4.22", 409)
    await ann.refused(ann.peer.signed("the second", id=ask["id"].removeprefix("urn:uuid:").upper()), "4.22", 409)
    assert await bob.answer("mine", id=ask["id"]) == "echo: mine"


async def test_e25_a_stream_id_in_use_is_refused(ann: HttpLine, bob: HttpLine) -> None:
    taken = f"stream-{uuid.uuid4().hex}"
    await ann.deltas(await ann.ask("one", stream_id=taken))
    await ann.refused(ann.peer.signed("two", stream_id=taken), "4.22", 409)
    assert await bob.answer("bob's own", stream_id=taken) == "echo: bob's own"


@pytest.mark.parametrize("seconds", [-600, 600])
async def test_e26_an_old_or_early_envelope_is_refused(ann: HttpLine, seconds: int) -> None:
    moment = ann.peer.now().timestamp() + seconds
    stale = utc_text(type(ann.peer.now()).fromtimestamp(moment, tz=ann.peer.now().tzinfo))
    await ann.refused(ann.peer.signed("late", ts=stale), "4.01", 401)


async def test_e26_a_replay_after_its_time_is_refused(envelopes: EnvelopeServer, ann: HttpLine) -> None:
    ask = ann.peer.signed("in time")
    await ann.deltas(await ann.opened(ask))
    envelopes.clock.advance(600)
    try:
        await ann.refused(ask, "4.01", 401)
    finally:
        envelopes.clock.reset()


async def test_e27_a_forgery_does_not_use_up_its_victims_id(ann: HttpLine, bob: HttpLine) -> None:
    """Neither with a wrong signature nor by another caller."""
    ask = ann.peer.unsigned("the real one")
    forged = {**ask, "body": {"type": "text/plain", "content": "forged"}}
    await ann.refused(bob.peer.sign(forged, kid=ann.peer.kid), "4.01", 401)
    await bob.refused(bob.peer.sign(forged), "4.03", 403)
    assert await ann.answer("", id=ask["id"], body=ask["body"]) == "echo: the real one"


async def test_e28_an_envelope_for_somebody_else_is_refused(envelopes: EnvelopeServer, ann: HttpLine) -> None:
    await ann.refused(ann.peer.signed(to=["did:web:elsewhere.example"]), "4.03", 403)
    await ann.refused(ann.peer.signed(to=[f"{envelopes.did}:agents:nobody"]), "4.03", 403)
    await ann.refused(ann.peer.signed(to=[envelopes.did, envelopes.did_of("changing")]), "4.03", 403)


async def test_e28_each_of_two_recipients_takes_the_identical_envelope(
    envelopes: EnvelopeServer, small: EnvelopeServer, ann: HttpLine, at_small: HttpLine
) -> None:
    """At each it opens a stream of its own."""
    ask = ann.peer.signed("to both", to=[envelopes.did, small.did])
    for line in (ann, at_small):
        assert (await line.deltas(await line.opened(ask), ack=False))[-1]["payload"]["text"] == "echo: to both"


async def test_e36_a_busy_server_says_when_to_come_again(small: EnvelopeServer, at_small: HttpLine) -> None:
    """The refused envelope is not kept: sent again when there is room it is a first one. What opens nothing is taken."""
    name, to = f"busy-{uuid.uuid4().hex}", [small.did]
    first = await at_small.ask(plan({"say": ["begun ", gate(name)]}), to=to)
    second = at_small.peer.signed("second", to=to)
    response = await at_small.post(second)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    problem = response.json()
    assert (problem["code"], problem["retryable"], problem["ref"]) == ("5.04", True, second["id"])
    await at_small.send(at_small.peer.signed("for later", intent="inform", to=to))
    small.open_gate(name)
    await at_small.deltas(first, ack=False)
    assert (await at_small.deltas(await at_small.opened(second), ack=False))[-1]["payload"]["text"] == "echo: second"


async def test_e42_its_owner_cancels_an_ask(envelopes: EnvelopeServer, ann: HttpLine, bob: HttpLine) -> None:
    """The stream ends with a cancel delta, what is said later is not told; a second cancel is taken and changes nothing."""
    name = f"cancel-{uuid.uuid4().hex}"
    asked = await ann.ask(plan({"say": ["begun ", gate(name), "never"]}))
    reading = asyncio.create_task(ann.deltas(asked))
    await bob.refused(bob.peer.signed("stop", intent="cancel", reply_to=asked.envelope["id"]), "4.03", 403)
    by_stream = ann.peer.signed("stop", intent="cancel", stream_id=asked.stream_id)
    response = await ann.send(by_stream)
    assert "location" not in response.headers
    deltas = await reading
    assert deltas[-1]["type"] == "cancel"
    assert [delta["delta_seq"] for delta in deltas] == list(range(len(deltas)))
    envelopes.open_gate(name)
    await ann.send(ann.peer.cancel(asked.envelope))
    assert (await ann.deltas(asked))[-1] == deltas[-1]


async def test_e42_after_the_end_a_cancel_has_no_effect(ann: HttpLine) -> None:
    asked = await ann.ask("quick")
    deltas = await ann.deltas(asked)
    await ann.send(ann.peer.cancel(asked.envelope))
    assert await ann.deltas(asked) == deltas
    assert deltas[-1]["type"] == "done"


@pytest.mark.parametrize("intent", ["cancel", "progress", "confirm", "deny", "error"])
async def test_e42_an_answer_to_nothing_is_refused(ann: HttpLine, intent: str) -> None:
    await ann.refused(ann.peer.signed(intent=intent, reply_to=new_id()), "4.04", 404)
    await ann.refused(ann.peer.signed(intent=intent), "4.04", 404)


@pytest.mark.parametrize("intent", ["inform", "notify"])
async def test_e43_informing_opens_no_stream(ann: HttpLine, intent: str) -> None:
    """It is taken, named or not; what it names hears of it once."""
    response = await ann.send(ann.peer.signed("just so", intent=intent))
    assert "location" not in response.headers
    asked = await ann.ask("begin")
    await ann.deltas(asked)
    told = ann.peer.signed("it rains", intent=intent, reply_to=asked.envelope["id"])
    for _ in range(2):
        response = await ann.send(told)
        assert (response.status_code, "location" in response.headers) == (202, False)
    heard = texts(await ann.answer(MIRROR, reply_to=asked.envelope["id"]))
    assert heard == ["begin", "echo: begin", "it rains", MIRROR]


async def proposed(ann: HttpLine, operator: httpx.AsyncClient, text: str) -> tuple[Asked, str]:
    """A proposal, and its id as the operator sees it."""
    asked = await ann.opened(ann.peer.signed(text, intent="propose"))
    listed = (await operator.get("/proposals")).json()["proposals"]
    (found,) = [item for item in listed if item["envelope"] == asked.envelope["id"]]
    assert (found["sender"], found["text"], found["state"]) == (ann.peer.did, text, "in_progress")
    return asked, found["proposal"]


async def check_signed(envelopes: EnvelopeServer, answer: Envelope) -> None:
    """An answer verifies by the DID document that the server publishes, with code that is not ours."""
    async with httpx.AsyncClient(verify=envelopes.certificates.trust(), timeout=60) as client:
        document = (await client.get(f"{envelopes.url}/.well-known/did.json")).json()
    header, _, signature = answer["sig"].split(".")
    kid = json.loads(base64.urlsafe_b64decode(header + "=="))["kid"]
    (method,) = [item for item in document["verificationMethod"] if item["id"] == kid]
    payload = base64.urlsafe_b64encode(payload_of(answer)).decode().rstrip("=")
    token: Any = jws.JWS()
    token.deserialize(f"{header}.{payload}.{signature}")
    token.verify(jwk.JWK(**method["publicKeyJwk"]))


@pytest.mark.parametrize("decision", ["confirm", "deny"])
async def test_e44_a_proposal_ends_with_a_signed_answer(
    envelopes: EnvelopeServer, ann: HttpLine, operator: httpx.AsyncClient, decision: str
) -> None:
    """Both are terminal; a second answer is refused and changes nothing."""
    asked, ident = await proposed(ann, operator, f"shall we {decision}?")
    reading = asyncio.create_task(ann.deltas(asked))
    answered = await operator.post(f"/proposals/{ident}", json={"decision": decision, "reason": "so it is"})
    assert answered.status_code == 200, answered.text
    assert answered.json()["state"] == "completed"
    (last,) = await reading
    assert (last["type"], last["payload"]["intent"]) == ("done", decision)
    answer: Envelope = last["payload"]["envelope"]
    assert (answer["intent"], answer["reply_to"]) == (decision, asked.envelope["id"])
    assert (answer["from"], answer["to"]) == (envelopes.did, [ann.peer.did])
    assert json.loads(answer["body"]["content"]) == {"decision": decision, "reason": "so it is"}
    await check_signed(envelopes, answer)
    again = await operator.post(f"/proposals/{ident}", json={"decision": "deny"})
    assert (again.status_code, again.json()["code"]) == (409, "wait_answered")
    await ann.send(ann.peer.cancel(asked.envelope))
    assert await ann.deltas(asked) == [last]


async def test_e44_a_proposal_that_is_withdrawn_cannot_be_answered(ann: HttpLine, operator: httpx.AsyncClient) -> None:
    asked, ident = await proposed(ann, operator, "never mind this one")
    await ann.send(ann.peer.cancel(asked.envelope))
    answered = await operator.post(f"/proposals/{ident}", json={"decision": "confirm"})
    assert (answered.status_code, answered.json()["code"]) == (409, "wait_answered")
    (last,) = await ann.deltas(asked)
    assert last["type"] == "cancel"


async def test_e44_its_sender_cannot_answer_its_own_proposal(ann: HttpLine, operator: httpx.AsyncClient) -> None:
    asked, ident = await proposed(ann, operator, "I say yes")
    await ann.refused(ann.peer.signed(intent="confirm", reply_to=asked.envelope["id"]), "4.03", 403)
    await operator.post(f"/proposals/{ident}", json={"decision": "deny"})
