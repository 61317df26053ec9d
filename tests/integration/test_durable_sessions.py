"""`session()` inside `async with connect():`: what a session in process does, kept by the store and carried out by workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
import pytest_asyncio

from perdure import session
from perdure.errors import InvalidInput, ServerError, UnknownSession
from perdure.uap.session import Session
from perdure.upp.errors import UPPError
from tests.conformance.uap_session_stage import Talker, said
from tests.integration.durable_talkers import (
    AGENTS,
    FALTERS,
    LOOKS_OFTEN,
    TALKER,
    TALKS,
    UNSTEADY,
    runs,
    shape,
)
from tests.integration.facts import check_session
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    async with serving(stack, "durable_sessions", AGENTS):
        yield


async def test_the_design_s_example_works(stack: Stack) -> None:
    """Design, part 10."""
    async with stack.connect():
        chat = session(LOOKS_OFTEN)
        turn = await chat.run("look around")
        await chat.restore(chat.checkpoints[3].id)
        assert turn.response.text == "re: look around"
        assert said(chat) == ["look around", *["look", "seen w0"], *["look", "seen w1"], *["look", "seen w2"],
                              *["look", "seen w3"]]  # fmt: skip
        assert chat.current_checkpoint is chat.checkpoints[3]
        await chat.run("go on")
        assert said(chat)[-2:] == ["go on", "re: go on"]
    await check_session(stack, chat.id)


async def branches(chat: Session) -> None:
    await chat.run("one")
    other = chat.fork(chat.thread_tree.current.id, "other")
    chat.thread_tree.checkout(other)
    await chat.run("two")
    chat.thread_tree.checkout(chat.thread_tree.root.id)
    await chat.run("three")


async def merges(chat: Session) -> None:
    await branches(chat)
    other = next(name for name, label in chat.thread_tree.get_branches().items() if label == "other")
    chat.thread_tree.merge(other, chat.thread_tree.root.id)
    await chat.run("four")


async def restores(chat: Session) -> None:
    await chat.run("one")
    await chat.run("look")
    await chat.restore(chat.checkpoints[0].id)


async def restores_and_runs(chat: Session) -> None:
    await restores(chat)
    await chat.run("two")


async def restores_in_the_middle(chat: Session) -> None:
    await chat.run("look")
    await chat.run("two")
    await chat.restore(chat.checkpoints[0].id)


async def streams(chat: Session) -> None:
    await chat.stream("one")
    await chat.stream("look").turn


STORIES: list[Callable[[Session], Awaitable[None]]] = [
    runs, branches, merges, restores, restores_and_runs, restores_in_the_middle, streams,
]  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_a_story_comes_to_the_same_in_both_hosts(
    stack: Stack, story: Callable[[Session], Awaitable[None]]
) -> None:
    here = session(TALKS)
    await story(here)
    async with stack.connect() as sessions:
        there = session(TALKS)
        await story(there)
        assert shape(there) == shape(here)
        assert there.to_json() == await sessions.document(there.id)
        again = session(TALKS, id=there.id)
        await again.refresh()
        assert again.to_json() == there.to_json()
        assert shape(again) == shape(there)


async def test_another_connection_goes_on_where_the_first_one_stopped(stack: Stack) -> None:
    async with stack.connect():
        first = session(TALKS, metadata={"task": "x"})
        await first.run("one")
    async with stack.connect():
        second = session(TALKS, id=first.id)
        assert (said(second), second.checkpoints) == ([], [])
        await second.run("two")
        assert said(second) == ["one", "re: one", "two", "re: two"]
        assert second.metadata == {"task": "x"}
        assert TALKER.told[-1] == ["one", "re: one", "two"]


async def test_a_session_of_a_given_id_is_begun_by_its_first_run(stack: Stack) -> None:
    async with stack.connect() as sessions:
        own = session(TALKS).id
        chat = session(TALKS, id=own)
        await chat.refresh()
        with pytest.raises(UnknownSession):
            await sessions.document(own)
        await chat.run("one")
        assert (await sessions.document(own))["id"] == own


async def test_two_who_work_on_one_session_see_each_other_s_turns(stack: Stack) -> None:
    async with stack.connect():
        one = session(TALKS)
        await one.run("one")
        other = session(TALKS, id=one.id)
        await asyncio.gather(one.run("two"), other.run("three"))
        await one.refresh()
        await other.refresh()
        assert said(one) == said(other)
        assert sorted(said(one)) == sorted(["one", "re: one", "two", "re: two", "three", "re: three"])


async def test_a_session_survives_its_worker_between_runs(stack: Stack) -> None:
    async with stack.connect():
        chat = session(UNSTEADY)
        async with serving(stack, "unsteady", [UNSTEADY]):
            await chat.run("one")
            chat.thread_tree.checkout(chat.fork(chat.thread_tree.root.id, "kept"))
        async with serving(stack, "unsteady", [UNSTEADY]):
            await chat.run("two")
        assert said(chat) == ["one", "re: one", "two", "re: two"]
        assert chat.thread_tree.current.name == "kept"
    await check_session(stack, chat.id)


async def test_a_change_that_no_worker_has_made_yet_is_shown(stack: Stack) -> None:
    """And made before the next run, in whatever process."""
    async with stack.connect() as sessions:
        chat = session(UNSTEADY)
        async with serving(stack, "unsteady", [UNSTEADY]):
            await chat.run("one")
        branch = chat.fork(chat.thread_tree.root.id)
        await sessions.change(chat.id, "fork", {"node": chat.thread_tree.root.id}, wait_s=0.1)
        assert branch in chat.thread_tree.nodes
        async with serving(stack, "unsteady", [UNSTEADY]):
            await chat.run("two")
        assert len(chat.thread_tree.nodes) == 3


async def test_a_failed_run_is_resumed(stack: Stack) -> None:
    async with stack.connect():
        chat = session(FALTERS)
        with pytest.raises(UPPError, match="broken"):
            await chat.run("break")
        assert said(chat) == []
        assert [item.step for item in chat.checkpoints] == [1]
        turn = await chat.resume()
        assert turn.response.text == "re: break"
        assert said(chat) == ["break", "look", "seen w0", "re: break"]
        assert [item.step for item in chat.checkpoints] == [1, 2]


async def test_without_a_checkpoint_there_is_nothing_to_resume(stack: Stack) -> None:
    async with stack.connect():
        with pytest.raises(InvalidInput, match=r"no checkpoint of a run"):
            await session(TALKS).resume()


async def test_what_cannot_be_restored_is_refused(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        await chat.run("one")
        with pytest.raises(InvalidInput, match="Checkpoint not found: nowhere"):
            await chat.restore("nowhere")
        with pytest.raises(InvalidInput, match="Node not found"):
            chat.fork("nowhere")


async def test_changes_are_handed_in_by_the_next_awaited_call_in_their_order(stack: Stack) -> None:
    async with stack.connect() as sessions:
        chat = session(TALKS)
        first = chat.fork(chat.thread_tree.root.id, "first")
        second = chat.fork(first, "second")
        chat.thread_tree.checkout(second)
        with pytest.raises(UnknownSession):
            await sessions.document(chat.id)
        await chat.save()
        assert chat.to_json() == await sessions.document(chat.id)
        assert [node.name for node in chat.thread_tree.nodes.values()] == ["main", "first", "second"]
        assert chat.thread_tree.current.id == second


async def test_a_change_that_cannot_be_made_is_told_and_forgotten(stack: Stack) -> None:
    """As one of a root that the stored session does not have, which was not read before."""
    document = session(TALKS).to_json()
    async with stack.connect():
        stored = Session.from_json(document, TALKS)
        await stored.save()
        chat = session(TALKS, id=stored.id)
        chat.fork(chat.thread_tree.root.id)
        with pytest.raises(InvalidInput, match=r"[Nn]ode"):
            await chat.refresh()
        await chat.refresh()
        assert chat.thread_tree.to_json() == stored.thread_tree.to_json()


async def test_usage_is_the_sum_of_all_runs(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        turns = [await chat.run("one"), await chat.run("look")]
        assert chat.usage.input_tokens == sum(turn.usage.input_tokens for turn in turns)
        assert list(chat.usage_by_agent) == ["talks"]
        assert chat.usage_by_agent["talks"].total_tokens == chat.usage.total_tokens


async def test_an_agent_without_a_name_has_no_durable_session(stack: Stack) -> None:
    async with stack.connect():
        with pytest.raises(InvalidInput, match="needs an agent with a name"):
            session(Talker().agent())


async def test_a_session_ends_with_its_connection(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        await chat.run("one")
    assert said(chat) == ["one", "re: one"]
    with pytest.raises(ServerError, match="connection of session"):
        await chat.run("two")
