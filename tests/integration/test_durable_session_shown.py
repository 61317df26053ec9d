"""What a durable session shows: its checkpoints, the events of its runs, and only what is new by `refresh`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from perdure import session
from perdure.runtime import session_mirror
from perdure.store.messages import StoredMessage, read_messages
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.session import Session
from perdure.upp.errors import UPPError
from perdure.upp.stream import StreamEventType
from tests.conformance.uap_session_stage import LOOKED, said, texts
from tests.integration.durable_talkers import AGENTS, BREAKS, LEADER, TALKS
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    async with serving(stack, "durable_sessions", AGENTS):
        yield


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


def told_by_path(events: list[AgentStreamEvent]) -> dict[tuple[str, ...], list[str]]:
    """What the agents of each path did, and said, in their order; in how many pieces they said it does not count."""
    found: dict[tuple[str, ...], list[str]] = {}
    speaking: set[tuple[str, ...]] = set()
    for event in events:
        told = found.setdefault(event.path, []) if event.uap is not None or event.upp is not None else []
        if event.uap is not None:
            told.append(str(event.uap.type))
            speaking.discard(event.path)
        elif event.upp is not None and event.upp.type is StreamEventType.TEXT_DELTA:
            said = event.upp.delta.text or ""
            told[-1:] = [told[-1] + said] if event.path in speaking else [*told[-1:], said]
            speaking.add(event.path)
    return {path: told for path, told in found.items() if told}


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
