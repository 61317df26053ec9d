"""`session()` inside `async with connect():`: what a session in process does, kept by the store and carried out by workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import pytest_asyncio
from sqlalchemy import text

from perdure import agent, ask, query, session
from perdure.activities.contracts import SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.errors import InvalidInput, ServerError, UnknownSession
from perdure.runtime import session_mirror
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.messages import MessageCache, StoredMessage, read_messages
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.app import App
from perdure.uap.persistence import memory
from perdure.uap.session import Session
from perdure.upp.errors import UPPError
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.stream import StreamEventType
from perdure.upp.thread import Thread
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.conformance.uap_session_stage import LOOKED, Talker, example, said, texts
from tests.integration.facts import check_session
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

TALKER = Talker()
TALKS = TALKER.agent(name="talks")
LOOKS_OFTEN = Talker(rounds=4).agent(name="looks_often")
FALTERS = Talker(failures=1).agent(name="falters")
BREAKS = Talker().agent(name="breaks")
UNSTEADY = Talker().agent(name="unsteady")


def _calling(name: str, below: Agent) -> Agent:
    """An agent that has its sub-agent look, and says so."""

    def answer(request: LLMRequest) -> ScriptedAnswer:
        return f"{name} is done" if len(request.messages) > 1 else call(str(below.name), task="look")

    return agent(name=name, model=scripted(answer), tools=[below])


LEADER = _calling("leader", _calling("middle", Talker().agent(name="searcher")))
AGENTS = [TALKS, LOOKS_OFTEN, FALTERS, BREAKS, LEADER]


@asynccontextmanager
async def serving(stack: Stack, queue: str, agents: Sequence[Agent]) -> AsyncGenerator[None, None]:
    """A worker of this process that serves the agents."""
    database = Database(stack.addresses.database_url)
    client = await connect_temporal(stack.addresses.temporal, "default", plugins=[perdure_plugin()])
    services = Services(
        database=database, announcer=Announcer(database), cache=MessageCache(database), app=App(agents=list(agents))
    )
    rows = [AgentRow(str(one.name), one.id, SESSION, queue, converter.unstructure(one.spec())) for one in agents]
    await register_agents(database, "default", rows)
    async with build_worker(client, services, WorkerOptions(task_queue=queue)):
        yield
    await services.announcer.close()
    await database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    async with serving(stack, "durable_sessions", AGENTS):
        yield


async def rows(stack: Stack, sql: str, **values: Any) -> list[Any]:
    database = Database(stack.addresses.database_url)
    async with database.transaction() as connection:
        found = list(await connection.execute(text(sql), values))
    await database.close()
    return found


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


def shape(chat: Session) -> list[Any]:
    """What is said in each node, where it forks, and what each checkpoint is of; ids by their place."""
    places = {name: place for place, name in enumerate(chat.thread_tree.nodes)}
    nodes: list[Any] = [
        [node.name, None if node.parent_id is None else places[node.parent_id], node.fork_index, texts(node.thread.messages)]
        for node in chat.thread_tree.nodes.values()
    ]  # fmt: skip
    taken: list[Any] = [
        [item.step, places[item.thread_id], texts(item.state.messages), item.metadata["threadLength"], item.state.done]
        for item in chat.checkpoints
    ]
    current = None if chat.current_checkpoint is None else chat.checkpoints.index(chat.current_checkpoint)
    return [nodes, places[chat.thread_tree.current.id], taken, current, said(chat)]


async def runs(chat: Session) -> None:
    await chat.run("one")
    await chat.run("look")


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


async def test_metadata_is_written_by_key(stack: Stack) -> None:
    """So that what others wrote beside stays."""
    async with stack.connect():
        one = session(TALKS, metadata={"a": 1, "b": [1], "gone": True})
        await one.run("one")
        other = session(TALKS, id=one.id)
        await other.refresh()
        assert other.metadata == {"a": 1, "b": [1], "gone": True}
        one.metadata["b"] = [1, 2]
        del one.metadata["gone"]
        other.metadata["c"] = "other's"
        await other.save()
        await one.save()
        assert one.metadata == {"a": 1, "b": [1, 2], "c": "other's"}
        await other.refresh()
        assert other.metadata == one.metadata
        one.metadata["file"] = cast(Any, object())
        with pytest.raises(InvalidInput, match=r"\$.file"):
            await one.run("two")


async def test_a_copy_goes_to_the_user_s_own_adapter(stack: Stack) -> None:
    adapter = memory()
    async with stack.connect():
        chat = session(TALKS, persistence=adapter)
        await chat.run("one")
        saved = await adapter.load(f"session:{chat.id}")
        assert saved is not None
        assert Session.from_json(saved, TALKS).to_json() == chat.to_json()


async def test_a_document_is_stored_by_the_first_awaited_call(stack: Stack) -> None:
    here = session(TALKS)
    await runs(here)
    async with stack.connect() as sessions:
        chat = Session.from_json(here.to_json(), TALKS)
        assert shape(chat) == shape(here)
        await chat.run("three")
        assert said(chat) == [*said(here), "three", "re: three"]
        assert chat.to_json() == await sessions.document(chat.id)


async def test_the_specification_s_example_is_gone_on_with(stack: Stack) -> None:
    """Source: UAP-1.0 section 13.5. Its ids are no UUIDs, and stay."""
    async with stack.connect():
        chat = Session.from_json(example(), TALKS)
        await chat.run("go on")
        assert chat.id == "sess_abc123"
        assert chat.thread_tree.current.id == "node_branch1"
        assert said(chat)[-2:] == ["go on", "re: go on"]


async def test_a_document_of_a_stored_session_is_attached_if_it_is_the_same(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        await chat.run("one")
        document = chat.to_json()
        same = Session.from_json(document, TALKS)
        await same.run("two")
        assert said(same) == ["one", "re: one", "two", "re: two"]
        with pytest.raises(InvalidInput, match="id"):
            await Session.from_json(document, TALKS).run("three")


async def test_the_last_checkpoint_of_each_turn_is_shown_if_so_wanted(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS, checkpoint_interval="turn")
        events = [event async for event in chat.stream("look")]
        await chat.run("two")
        assert [item.step for item in chat.checkpoints] == [2, 1]
        told = [event.uap.data["checkpointId"] for event in events if event.uap and event.uap.type == "checkpoint"]
        assert told == [chat.checkpoints[0].id]
        assert [item.step for item in await checkpoints_of(chat.id)] == [1, 2, 1]


async def checkpoints_of(own: str) -> list[Any]:
    chat = session(TALKS, id=own)
    await chat.refresh()
    return chat.checkpoints


async def test_no_checkpoint_is_shown_if_none_is_wanted(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS, checkpoints=False)
        events = [event async for event in chat.stream("look")]
        assert [event for event in events if event.uap and event.uap.type == "checkpoint"] == []
        assert (chat.checkpoints, chat.current_checkpoint, chat.state) == ([], None, None)
        assert chat.to_json()["checkpoints"] == []
        assert said(chat) == LOOKED


async def test_a_stream_tells_what_one_in_process_tells(stack: Stack) -> None:
    def told(events: list[Any]) -> list[str]:
        return [str(event.uap.type) for event in events if event.uap is not None]

    here = [event async for event in session(TALKS).stream("look")]
    async with stack.connect():
        chat = session(TALKS)
        stream = chat.stream("look")
        there = [event async for event in stream]
        turn = await stream.turn
        assert told(there) == told(here)
        assert chat.thread_tree.current.thread.messages == turn.messages
        ids = [event.uap.data["checkpointId"] for event in there if event.uap and event.uap.type == "checkpoint"]
        assert ids == [item.id for item in chat.checkpoints]


async def test_an_aborted_stream_leaves_its_answer_and_the_session_goes_on(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        stream = chat.stream("one")
        async for event in stream:
            if event.upp is not None and event.upp.type is StreamEventType.TEXT_DELTA:
                stream.abort()
        turn = await stream
        assert said(chat)[:1] == ["one"]
        assert turn.response.text in ("", *said(chat))
        await chat.run("two")
        assert said(chat)[-2:] == ["two", "re: two"]


async def test_a_refresh_reads_only_what_is_new(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the messages whose bodies are read, and by the checkpoints that are made of records."""
    read: list[StoredMessage] = []

    async def counted(*arguments: Any, **values: Any) -> list[StoredMessage]:
        found = await read_messages(*arguments, **values)
        read.extend(found)
        return found

    monkeypatch.setattr(session_mirror, "read_messages", counted)
    async with stack.connect():
        chat = session(TALKS)
        for number in range(4):
            await chat.run(f"input {number}")
            assert len(read) == 2
            read.clear()
        known = chat.checkpoints
        await chat.refresh()
        assert read == []
        await session(TALKS, id=chat.id).run("other's")
        read.clear()
        await chat.refresh()
        assert [item.message.text for item in read] == ["other's", "re: other's"]
        assert chat.checkpoints[:4] == known


async def test_messages_of_a_failed_run_leave_the_thread_without_being_read_again(stack: Stack) -> None:
    async with stack.connect():
        chat = session(BREAKS)
        await chat.run("one")
        for _ in range(2):
            with pytest.raises(UPPError):
                await chat.run("break")
        assert said(chat) == ["one", "re: one"]
        assert [texts(item.state.messages) for item in chat.checkpoints[1:]] == [["break", "look", "seen w0"]] * 2
        await chat.run("two")
        assert said(chat) == ["one", "re: one", "two", "re: two"]
        assert chat.checkpoints[-1].metadata["threadLength"] == 2


async def test_asks_of_one_thread_are_inputs_of_one_session(stack: Stack) -> None:
    thread = Thread()
    before = await counts(stack)
    async with stack.connect():
        for number in range(3):
            await ask(TALKS, f"ask {number}", thread)
    after = await counts(stack)
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 3, 6, 0]
    assert TALKER.told[-1] == ["ask 0", "re: ask 0", "ask 1", "re: ask 1", "ask 2"]


async def test_a_history_from_elsewhere_is_uploaded_once(stack: Stack) -> None:
    """Of a history of one message two inputs make a session of five messages."""
    thread = Thread([UserMessage("before")])
    before = await counts(stack)
    async with stack.connect():
        await ask(TALKS, "one", thread)
        await ask(TALKS, "two", thread)
    after = await counts(stack)
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 2, 5, 0]
    assert TALKER.told[-1] == ["before", "one", "re: one", "two"]


async def test_a_second_input_after_the_same_history_begins_a_session_of_its_own(stack: Stack) -> None:
    before = await counts(stack)
    async with stack.connect():
        history = list((await TALKS.run("one")).messages)
        await TALKS.run(history, "two")
        await TALKS.run(history, "three")
    after = await counts(stack)
    assert [now - then for now, then in zip(after, before, strict=True)] == [2, 3, 8, 0]
    assert TALKER.told[-1] == ["one", "re: one", "three"]


async def test_a_history_whose_session_has_gone_on_is_uploaded_again(stack: Stack) -> None:
    async with stack.connect() as sessions:
        first = await TALKS.run("one")
        ((own,),) = await rows(stack, "select id from perdure.sessions order by created_at desc limit 1")
        await (await sessions.submit("talks", "between", session=own)).result()
        await TALKS.run(list(first.messages), "two")
    assert TALKER.told[-1] == ["one", "re: one", "two"]


async def test_a_message_that_was_changed_under_its_id_is_told_as_it_is(stack: Stack) -> None:
    async with stack.connect():
        asked, answer = (await TALKS.run("one")).messages
        await TALKS.run([UserMessage("other", id=asked.id, timestamp=asked.timestamp), answer], "two")
    assert TALKER.told[-1] == ["other", "re: one", "two"]


async def counts(stack: Stack) -> list[int]:
    """Sessions, inputs, messages, and bytes of options."""
    (row,) = await rows(
        stack,
        "select (select count(*) from perdure.sessions), (select count(*) from perdure.inputs), "
        "(select count(*) from perdure.messages), (select coalesce(sum(length(options)), 0) from perdure.inputs)",
    )
    return [int(value) for value in row]


async def test_a_query_s_thread_is_kept_by_its_session(stack: Stack) -> None:
    """Reading 4.31 of UAP-1.0 section 9.2; also if the session is only attached to, and has others already."""
    async with stack.connect():
        chat = session(TALKS)
        first = await query(TALKS, "aside", session=chat)
        await chat.run("one")
        other = session(TALKS, id=chat.id)
        second = await query(TALKS, "beside", session=other)
        await second.continue_("more")
        await other.save()
        await chat.refresh()
        kept = chat.metadata["queries"]
        assert isinstance(kept, dict)
        assert set(kept) == {first.thread_id, second.thread_id}
        assert kept[second.thread_id] == second.thread.to_json()
        assert said(chat) == ["one", "re: one"]


async def test_usage_is_the_sum_of_all_runs(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        turns = [await chat.run("one"), await chat.run("look")]
        assert chat.usage.input_tokens == sum(turn.usage.input_tokens for turn in turns)
        assert list(chat.usage_by_agent) == ["talks"]
        assert chat.usage_by_agent["talks"].total_tokens == chat.usage.total_tokens


def told_by_path(events: list[AgentStreamEvent]) -> dict[tuple[str, ...], list[str]]:
    """What the agents of each path did, and said, in their order; checkpoints are those of the parent alone."""
    found: dict[tuple[str, ...], list[str]] = {}
    for event in events:
        if event.uap is not None and event.uap.type != "checkpoint":
            found.setdefault(event.path, []).append(str(event.uap.type))
        elif event.upp is not None and event.upp.type is StreamEventType.TEXT_DELTA:
            found.setdefault(event.path, []).append(event.upp.delta.text or "")
    return found


async def test_a_stream_follows_sub_agents_by_path_if_so_wanted(stack: Stack) -> None:
    here = session(LEADER)
    in_process = told_by_path([event async for event in here.stream("go", sub_agents=True)])
    async with stack.connect():
        chat = session(LEADER)
        events = [event async for event in chat.stream("go", sub_agents=True)]
        assert told_by_path(events) == in_process
        assert list(in_process) == [(), ("middle",), ("middle", "searcher")]
        assert all(bool(event.call) == bool(event.path) for event in events)
        alone = [event async for event in session(LEADER).stream("go")]
        assert list(told_by_path(alone)) == [()]
        assert list(told_by_path([event async for event in LEADER.stream("go", sub_agents=True)])) == list(in_process)
        assert chat.usage_by_agent.keys() == here.usage_by_agent.keys()
        assert chat.usage.total_tokens == here.usage.total_tokens
        assert sum(item.total_tokens for item in chat.usage_by_agent.values()) == chat.usage.total_tokens
        (state,) = chat.checkpoints[-1].sub_agent_states.values()
        assert Session.from_json(state, LEADER).checkpoints[-1].sub_agent_states.keys()


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
