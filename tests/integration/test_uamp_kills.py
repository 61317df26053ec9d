"""Processes that die while a UAMP client talks: each conversation completes with nothing lost, told twice or paid twice."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.conformance.test_uamp_payments import HELLO, purse_of
from tests.conformance.uamp_agents import call, gate, plan
from tests.conformance.uamp_client import HTTP, WS, HttpLine, Talk
from tests.conformance.uamp_server import UampServer, new_gate
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, eventually
from tests.integration.uamp_place import PICK, Story, place, resumed

SAID = ["one two ", "three four"]


@pytest.fixture(scope="module")
def uamp(stack: Stack) -> Iterator[UampServer]:
    """A worker, which is killed and followed by another one, and an API that nobody kills."""
    with place(stack) as served:
        yield served


@pytest.fixture(autouse=True)
def no_worker_left() -> None:
    """A worker that a test starts serves the tests behind it; the server that they share ends it."""


@pytest.fixture
def doomed(uamp: UampServer) -> Iterator[ApiProcess]:
    """An API that will be killed."""
    process = uamp.new_api().wait_ready()
    yield process
    process.kill()


async def test_the_api_dies_between_a_call_and_its_result(uamp: UampServer, doomed: ApiProcess) -> None:
    """At another process the client is asked again, by the same id, and its result goes on in the same response."""
    async with uamp.line(WS, url=doomed.url) as line:
        talk = await line.open(config={"tools": [PICK]})
        response = await talk.begin(plan({"say": "well, ", "calls": [call("pick", of="it")]}, {"say": "blue it is"}))
        asked = await talk.hear("tool.call")
        story = Story(response).take(talk.heard)
        doomed.kill()
    async with uamp.line(WS) as line:
        talk = await resumed(line, talk.id, story.last)
        assert await talk.hear("tool.call") == asked
        await talk.send("tool.result", call_id=asked["call_id"], result="blue")
        await talk.end_of(response)
        story.take(talk.heard)
    assert story.text == "well, blue it is"
    assert [event["type"] for event in story.again] == ["tool.call"]


async def test_the_api_dies_with_a_result_that_it_has_not_taken(uamp: UampServer, doomed: ApiProcess) -> None:
    """The client sends the result again, and it counts once."""
    async with uamp.line(WS, url=doomed.url) as line:
        talk = await line.open(config={"tools": [PICK]})
        response = await talk.begin(plan({"calls": [call("pick", of="it")]}, {"say": "blue it is"}))
        asked = await talk.hear("tool.call")
        sent = await talk.send("tool.result", call_id=asked["call_id"], result="blue")
        doomed.kill()
        story = Story(response).take(talk.heard)
    async with uamp.line(WS) as line:
        talk = await resumed(line, talk.id, story.last)
        await talk.send("tool.result", event_id=sent, call_id=asked["call_id"], result="blue")
        await talk.end_of(response)
        story.take(talk.heard)
    assert story.text == "blue it is"


async def test_the_worker_dies_between_a_call_and_its_result(uamp: UampServer) -> None:
    """The client does not notice: its socket stays, and the next worker takes the result."""
    async with uamp.line(WS) as line:
        talk = await line.open(config={"tools": [PICK]})
        response = await talk.begin(plan({"say": "well, ", "calls": [call("pick", of="it")]}, {"say": "blue"}))
        asked = await talk.hear("tool.call")
        uamp.worker.kill()
        await talk.send("tool.result", call_id=asked["call_id"], result="blue")
        uamp.worker = uamp.new_worker().wait_ready()
        await talk.end_of(response)
        assert Story(response).take(talk.heard).text == "well, blue"


@pytest.mark.parametrize("kind", [WS, HTTP])
async def test_the_api_dies_amid_deltas(uamp: UampServer, doomed: ApiProcess, kind: str) -> None:
    """At another process the client hears on behind the event that it had last, by either transport."""
    stop = new_gate()
    async with uamp.line(kind, url=doomed.url) as line:
        talk = await line.open()
        response = await talk.begin(plan({"think": "hm, hm", "say": [SAID[0], gate(stop), SAID[1]]}))
        await talk.hear("response.delta", where=lambda event: event["delta"].get("text") == "two ")
        story = Story(response).take(talk.heard)
        last = line.last[talk.id] if isinstance(line, HttpLine) else story.last
        doomed.kill()
    uamp.open_gate(stop)
    async with uamp.line(kind) as line:
        if isinstance(line, HttpLine):
            line.listen(talk.id, last=last)
            talk = Talk(line, talk.id, talk.created)
        else:
            talk = await resumed(line, talk.id, last)
        await talk.end_of(response)
        story.take(talk.heard)
    assert story.text == "".join(SAID)
    assert story.again == []


async def test_the_worker_dies_amid_deltas(uamp: UampServer) -> None:
    """The model begins its message anew, which the client is told; response.done says what counts, and it comes once."""
    stop = new_gate()
    async with uamp.line(WS) as line:
        talk = await line.open()
        response = await talk.begin(plan({"say": [SAID[0], gate(stop), SAID[1]]}))
        await talk.hear("response.delta", where=lambda event: event["delta"].get("text") == "two ")
        uamp.worker.kill()
        uamp.open_gate(stop)
        uamp.worker = uamp.new_worker().wait_ready()
        await talk.hear("progress", where=lambda event: event.get("stage") == "restarted")
        answer = await talk.end_of(response)
        assert answer.text == "".join(SAID)
        assert Story(response).take(talk.heard).done["status"] == "completed"


async def test_the_api_dies_between_a_demand_and_its_payment(uamp: UampServer, doomed: ApiProcess) -> None:
    """It is asked for again, by the same id; what is submitted then pays once, and the response is told whole."""
    purse = await purse_of(uamp, "1")
    async with uamp.line(WS, url=doomed.url) as line:
        talk = await line.open(agent="paid")
        await talk.text(HELLO)
        await talk.send("response.create")
        required = await talk.hear("payment.required")
        doomed.kill()
    async with uamp.line(WS) as line:
        talk = await resumed(line, talk.id, required["event_id"])
        assert await talk.hear("payment.required") == required
        await talk.send("payment.submit", payment=purse.payment)
        answer = await talk.end_of(required["response_id"])
        assert answer.text == "hello"
        await talk.hear("payment.balance")
        told = [kind for kind in talk.types if kind.startswith("payment.")]
    assert told == ["payment.required", "payment.accepted", "payment.balance"]
    assert await purse.charges() == [Decimal("0.02")]
    assert await purse.stands() == (Decimal("0.98"), Decimal(0))


async def test_the_worker_dies_between_a_demand_and_its_payment(uamp: UampServer) -> None:
    """The payment is taken while no worker is there; the next one goes on, and it is paid once."""
    purse = await purse_of(uamp, "1")
    async with uamp.line(WS) as line:
        talk = await line.open(agent="paid")
        await talk.text(HELLO)
        await talk.send("response.create")
        required = await talk.hear("payment.required")
        uamp.worker.kill()
        await talk.send("payment.submit", payment=purse.payment)
        await talk.pause()
        uamp.worker = uamp.new_worker().wait_ready()
        answer = await talk.end_of(required["response_id"])
        assert answer.text == "hello"
        await talk.hear("payment.balance")
        assert talk.types.count("payment.accepted") == 1
    assert await purse.charges() == [Decimal("0.02")]


@pytest.mark.parametrize("point", ["uamp.asked", "uamp.submitted"])
async def test_the_api_dies_while_it_begins_a_response(uamp: UampServer, point: str) -> None:
    """What was asked for is stored: another process begins it, once, and whoever comes back is told all of it."""
    process = uamp.new_api(PERDURE_CRASH_AT=point).wait_ready()
    async with uamp.line(WS, url=process.url) as line:
        talk = await line.open()
        await talk.text("hello")
        asked = await talk.send("response.create")
        process.wait_dead()
    async with uamp.line(WS) as line:
        talk = await resumed(line, talk.id)
        await talk.send("response.create", event_id=asked)
        done = await talk.hear("response.done")
        story = Story(done["response_id"]).take(talk.heard)
        assert story.text == "echo: hello"
        mirror = (await talk.ask("mirror")).json
    said = [item["text"] for message in mirror["messages"] for item in message["items"]]
    assert said == ["hello", "echo: hello", "mirror"]


async def test_the_api_dies_and_presence_goes_with_it(uamp: UampServer, doomed: ApiProcess) -> None:
    """The chat's others are told that its user is gone once its seat's time is over."""
    chat = new_gate()
    async with uamp.line(WS, "ann") as line:
        talk = await line.open(chat=chat)
        async with uamp.line(WS, "bob", url=doomed.url) as other:
            await other.open(chat=chat)
            assert (await talk.hear("presence.online"))["user_id"] == "bob"
            doomed.kill()

        async def told() -> bool:
            return "presence.offline" in talk.types

        await eventually(told, what="bob is gone")
