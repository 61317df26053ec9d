"""Agents of one server ask agents of another, by every binding: answered, streamed, cancelled, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import agent, remote_agent
from perdure.protocols.uamp_envelope.keys import signing_key
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.events import Event, read_events
from perdure.uamp_envelope_client import EnvelopeClient, Identity
from perdure.uap.session_key import SessionKey
from tests.conformance.uamp_agents import gate, planned
from tests.integration.forging_server import ForgingServer, forging
from tests.integration.remote_servers import (
    TOOLS,
    TwoServers,
    ask,
    check_facts,
    new_text,
    open_asks,
    submit,
    two_servers,
)
from tests.integration.stack import Stack, eventually
from tests.integration.waiting import asked, results

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def servers(stack: Stack) -> Iterator[TwoServers]:
    """Two servers; no test kills them."""
    with two_servers(stack) as both:
        yield both


@pytest.fixture(scope="module")
def forger(servers: TwoServers) -> Iterator[ForgingServer]:
    """A third server, whose agent the first believes to be ann."""
    peers = servers.near.peers
    with forging(
        ForgingServer(peers["ann"], peers["bob"]), servers.forger_port, servers.near.certificates.server
    ) as server:
        yield server


async def log_of(sessions: Sessions, handle: RunHandle) -> list[Event]:
    """The events of a run's session."""
    return await read_events(sessions.database, SessionKey(sessions.tenant, handle.session), after=0)


@pytest.mark.parametrize("binding", TOOLS)
async def test_an_agent_asks_an_agent_elsewhere(servers: TwoServers, binding: str) -> None:
    """Its answer is the call's result; the other agent ran once, and nothing is left open."""
    text = new_text()
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask(TOOLS[binding], text))
        turn = await handle.result()
        assert await open_asks(sessions.database) == []
        await check_facts(sessions, handle)
    assert results(turn) == [(f"echo: {text}", False)]
    assert turn.response.text == "told"
    assert await servers.far_runs(text) == ["completed"]


@pytest.mark.parametrize("binding", TOOLS)
async def test_a_stream_is_kept_as_it_comes(servers: TwoServers, binding: str) -> None:
    """While the other agent speaks the run is parked with no activity, and what came is in the store."""
    text = new_text()
    plan = [{"say": [f"{text} first ", gate(text), "last"]}]
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask(TOOLS[binding], plan))
        (wait,) = await asked(sessions, handle)
        assert wait.asked["url"]

        async def accepted() -> bool:
            return any(row["accepted"] for row in await open_asks(sessions.database))

        await eventually(accepted, what="an accepted ask")
        await servers.until_far_run(text, "running")
        assert (await handle.status()).status == "parked"

        async def at_rest() -> bool:
            described = await sessions.client.get_workflow_handle(wait.key.workflow_id).describe()
            return not described.raw_description.pending_activities

        await eventually(at_rest, what="no activity in flight")
        servers.far.open_gate(text)
        turn = await handle.result()
    assert results(turn) == [(f"{text} first last", False)]
    assert await servers.far_runs(text) == ["completed"]


async def test_agents_are_asked_at_once(servers: TwoServers) -> None:
    """Parallel calls by all bindings: the first that answers is the last that was asked."""
    texts = [new_text() for _ in TOOLS]
    calls = [ask(tool, [{"say": [gate(text), text]}]) for tool, text in zip(TOOLS.values(), texts, strict=True)]
    async with servers.sessions() as sessions:
        handle = await submit(sessions, *calls)
        await asked(sessions, handle, len(calls))
        for left, text in zip(range(len(texts) - 1, -1, -1), reversed(texts), strict=True):
            servers.far.open_gate(text)

            async def answered(left: int = left) -> bool:
                return len(await sessions.waits(handle.session)) == left

            await eventually(answered, what="an answer")
        turn = await handle.result()
    assert results(turn) == [(text, False) for text in texts]


async def test_the_others_progress_is_in_the_log(servers: TwoServers) -> None:
    """What it tells of its work while it works, by the call's wait."""
    text = new_text()
    plan = [{"calls": [{"tool": "weather", "arguments": {"city": text}}]}, {"say": "sunny"}]
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_h2", plan))
        turn = await handle.result()
        told = [event for event in await log_of(sessions, handle) if event.type == "remote.progressed"]
        answered = [event.data["wait"] for event in await log_of(sessions, handle) if event.type == "wait.answered"]
    assert results(turn) == [("sunny", False)]
    assert told
    assert all([event.data["wait"]] == answered for event in told)
    assert all(event.data["peer"] == servers.far.did_of("assistant") for event in told)


@pytest.mark.parametrize("binding", TOOLS)
async def test_cancelling_cancels_the_other_agent(servers: TwoServers, binding: str) -> None:
    """The run ends at once; the other server is told, and its run ends too."""
    text = new_text()
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask(TOOLS[binding], [{"say": [f"{text} ", gate(text), "never"]}]))
        await servers.until_far_run(text, "running")
        await sessions.cancel(handle.session, wait_s=60)
        assert (await handle.status()).status == "cancelled"
        await servers.until_far_run(text, "cancelled")

        async def ended() -> bool:
            return not await open_asks(sessions.database)

        await eventually(ended, what="the end of the ask")


async def test_deleting_the_session_cancels_the_other_agent(servers: TwoServers) -> None:
    """Also while its first follower is at it, who has signed the ask since it was claimed."""
    text = new_text()
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_h2", [{"say": [f"{text} ", gate(text), "never"]}]))
        await servers.until_far_run(text, "running")
        await sessions.delete(handle.session, force=True)
        await servers.until_far_run(text, "cancelled")


async def test_an_answer_that_comes_too_late_is_not_wanted(servers: TwoServers) -> None:
    """The model is told that none came in time, the other agent that none is wanted."""
    text = new_text()
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_later", [{"say": [f"{text} ", gate(text), "never"]}]))
        turn = await handle.result()
    ((result, is_error),) = results(turn)
    assert is_error
    assert "did not answer in time" in result
    await servers.until_far_run(text, "cancelled")


async def test_a_person_answers_in_its_place(servers: TwoServers) -> None:
    """Then the other agent is told that its answer is not wanted any more."""
    text = new_text()
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_h2", [{"say": [f"{text} ", gate(text), "never"]}]))
        (wait,) = await asked(sessions, handle)
        await servers.until_far_run(text, "running")
        await sessions.answer(wait.id, {"result": "a person's"}, by="person")
        assert results(await handle.result()) == [("a person's", False)]
    await servers.until_far_run(text, "cancelled")


async def test_the_others_failure_is_a_result(servers: TwoServers) -> None:
    """The model is told what its server says of it, and goes on."""
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_h2", [{"fail": "INVALID_REQUEST"}]), ask("ask_unknown", "anybody?"))
        turn = await handle.result()
    (failure, refusal) = results(turn)
    assert failure[1]
    assert "The agent failed (" in failure[0]
    assert refusal[1]
    assert "refused" in refusal[0]
    assert turn.response.text == "told"


async def test_a_server_that_is_away_is_waited_for(servers: TwoServers) -> None:
    """What is in the way is in the ask's row; cancelling the run ends it."""
    async with servers.sessions() as sessions:
        handle = await submit(sessions, ask("ask_nobody", "anybody?"))

        async def seen() -> Any:
            return next((row for row in await open_asks(sessions.database) if row["problem"]), None)

        row = await eventually(seen, what="a problem")
        assert not row["accepted"]
        assert row["problem"]["type"] == "ConnectionBroken"
        assert (await handle.status()).status == "parked"
        await sessions.cancel(handle.session)

        async def ended() -> bool:
            return not await open_asks(sessions.database)

        await eventually(ended, what="the end of the ask")


async def test_the_agent_may_be_the_one_that_a_manifest_names(servers: TwoServers) -> None:
    """Without a DID the server's signed manifest says whom to ask."""
    text = new_text()
    async with servers.sessions() as sessions:
        turn = await (await submit(sessions, ask("ask_default", text))).result()
    assert results(turn) == [(f"echo: {text}", False)]


async def test_a_sub_agent_asks_in_its_root_agents_name(servers: TwoServers) -> None:
    """The ask is the root agent's, whose key and token the others know."""
    text = new_text()
    plan: dict[str, Any] = {"plan": [{"calls": [ask("ask_h2", text)]}, {"say": "told"}]}
    call = {"tool": "asker", "arguments": {"task": json.dumps(plan)}}
    async with servers.sessions() as sessions:
        handle = await submit(sessions, call, agent="chief")
        turn = await handle.result()
    assert results(turn) == [("told", False)]
    assert await servers.far_runs(text) == ["completed"]


async def test_a_certificate_stands_for_an_agent(servers: TwoServers) -> None:
    """In the place of a token; without either the other server takes nothing."""
    text = new_text()
    certificate = servers.near.certificates.client(servers.near.did_of("asker"))
    try:
        servers.tell(asker={"certificate": str(certificate.cert), "key": str(certificate.key)})
        async with servers.sessions() as sessions:
            turn = await (
                await submit(sessions, *(ask(TOOLS[name], f"{text}{name}") for name in ("h2", "ws", "grpc")))
            ).result()
        assert results(turn) == [(f"echo: {text}{name}", False) for name in ("h2", "ws", "grpc")]
        servers.tell()
        async with servers.sessions() as sessions:
            turn = await (await submit(sessions, ask("ask_h2", text))).result()
        ((result, is_error),) = results(turn)
        assert is_error
        assert "refused this (4.01)" in result
        assert await servers.far_runs(f"{text}h2") == ["completed"]
    finally:
        await servers.tell_tokens("asker", "chief")


@pytest.mark.parametrize(
    ("how", "accepted"),
    [("truly", "the truth"), ("unsigned", None), ("forged", None), ("changed", None), ("another text", None)],
)
async def test_nothing_is_accepted_unsigned(
    servers: TwoServers, forger: ForgingServer, how: str, accepted: str | None
) -> None:
    """Only what the agent has signed, word for word, is an answer of it."""
    before = len(forger.asks)
    async with servers.sessions() as sessions:
        turn = await (await submit(sessions, ask("ask_forger", how))).result()
    ((result, is_error),) = results(turn)
    assert (is_error, result if accepted else "") == (accepted is None, accepted or "")
    assert [item["intent"] for item in forger.asks[before:] if item["intent"] == "ask"] == ["ask"]


async def test_a_servers_word_may_be_enough(servers: TwoServers, forger: ForgingServer) -> None:
    """A tool may take what nobody has signed, never what was signed and changed."""
    async with servers.sessions() as sessions:
        turn = await (await submit(sessions, ask("ask_trusting", "unsigned"), ask("ask_trusting", "changed"))).result()
    assert results(turn)[0] == ("the truth", False)
    assert results(turn)[1][1]


async def test_an_agent_asks_from_a_process_without_a_server(servers: TwoServers) -> None:
    """A run that is not durable asks by a client of its own; the same turn, the same words."""
    text, far = new_text(), servers.far
    peer = far.peers["ann"]
    identity = Identity(peer.did, signing_key(peer.kid, json.loads(peer.key.export_private())))

    def client() -> EnvelopeClient:
        return EnvelopeClient(far.url, identity=identity, bearer=far.tokens[peer.did], trust=far.certificates.authority)

    tool = remote_agent(far.url, did=far.did_of("assistant"), name="ask_h2", client=client)
    local = agent(name="local", model=planned(), tools=[tool])
    turn = await local.run(json.dumps({"plan": [{"calls": [ask("ask_h2", text)]}, {"say": "told"}]}))
    assert results(turn) == [(f"echo: {text}", False)]
    assert await servers.far_runs(text) == ["completed"]
