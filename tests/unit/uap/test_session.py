"""Sessions in process: what they are, and their runs."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.execution import loop
from perdure.uap.active_session import current_run
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.options import RunOptions
from perdure.uap.session import Session, session
from perdure.uap.session_options import SessionOptions
from perdure.upp.errors import UPPError
from perdure.upp.function_tool import tool
from perdure.upp.messages import ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolResult
from tests.conformance.uap_session_stage import LOOKED, Talker, said, texts


def test_a_new_session_is_empty_and_has_a_uuid() -> None:
    own = Talker().agent()
    made = session(own)
    assert is_uuid4(made.id)
    assert made.agent is own
    assert (made.checkpoints, made.current_checkpoint, made.state, made.metadata) == ([], None, None, {})
    assert said(made) == []
    assert session(own).id != made.id


def test_a_session_takes_an_id_of_the_callers_if_it_is_a_uuid() -> None:
    own = derive_id("mine")
    assert session(Talker().agent(), id=own).id == own
    with pytest.raises(InvalidInput, match="not a UUIDv4"):
        session(Talker().agent(), id="sess_abc123")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"checkpoint_interval": "run"}, "checkpoint_interval is 'run'"),
        ({"metadata": {"file": object()}}, r"metadata must be JSON: \$.file"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        session(Talker().agent(), **options)


def test_options_are_those_of_the_specification() -> None:
    assert Session(Talker().agent(), SessionOptions(metadata={"task": "x"})).metadata == {"task": "x"}


def test_metadata_is_the_sessions_own() -> None:
    given = {"list": [1]}
    made = session(Talker().agent(), metadata=given)
    given["list"].append(2)
    assert made.metadata == {"list": [1]}


async def test_a_run_sees_what_was_said_and_adds_its_turn() -> None:
    talker = Talker()
    made = session(talker.agent())
    await made.run("one")
    turn = await made.run(UserMessage("two"))
    assert talker.told[-1] == ["one", "re: one", "two"]
    assert said(made) == ["one", "re: one", "two", "re: two"]
    assert made.thread_tree.current.thread.messages[2:] == turn.messages


async def test_a_run_passes_its_options_on() -> None:
    with pytest.raises(InvalidInput, match="max_cost"):
        await session(Talker().agent()).run("one", options=RunOptions(max_cost=cast(Any, "1")))


async def test_a_run_goes_to_the_node_that_was_current_when_it_began() -> None:
    """Whatever is checked out meanwhile."""

    def leave(_: int, __: StepResult) -> None:
        made.thread_tree.checkout(made.fork(made.thread_tree.root.id))

    made = session(Talker().agent(strategy=AgentStrategy(on_step_end=leave)))
    await made.run("one")
    assert texts(made.thread_tree.root.thread.messages) == ["one", "re: one"]
    assert said(made) == []


async def test_runs_come_one_after_another() -> None:
    """The second one's history has the first one's turn, though both were begun together."""
    talker = Talker()
    made = session(talker.agent())
    await asyncio.gather(made.run("look"), made.run("two"))
    assert said(made) == [*LOOKED, "two", "re: two"]
    assert talker.told[-1] == ["look", "", "seen w0", "re: look", "two"]


async def test_a_run_that_fails_leaves_the_thread_and_keeps_its_checkpoints() -> None:
    made = session(Talker().agent())
    await made.run("one")
    before = made.thread_tree.to_json()
    with pytest.raises(UPPError, match="broken"):
        await made.run("break")
    assert made.thread_tree.to_json() == before
    assert [(item.step, texts(item.state.messages)) for item in made.checkpoints] == [
        (1, ["one", "re: one"]),
        (1, ["break", "look", "seen w0"]),
    ]
    assert not made.checkpoints[-1].state.done


async def test_a_run_that_is_cancelled_leaves_the_thread_and_the_session_goes_on() -> None:
    started = asyncio.Event()

    @tool
    async def wait(word: str) -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return word

    made = session(Talker(tool_name="wait").agent(tools=[wait]))
    task = asyncio.create_task(made.run("look"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said(made) == []
    await made.run("two")
    assert said(made) == ["two", "re: two"]


async def test_calls_that_nobody_answered_are_answered_by_errors_when_sent() -> None:
    """A loop of no rounds returns them; the thread stays as it is."""
    made = session(Talker().agent(execution=loop(max_iterations=0)))
    await made.run("look")
    made.agent = (talker := Talker()).agent()
    await made.run("two")
    assert [text for text in talker.told[0] if "not carried out" in text]
    assert said(made) == ["look", "look", "two", "re: two"]


async def test_results_may_be_the_input() -> None:
    made = session(Talker().agent(execution=loop(max_iterations=0)))
    turn = await made.run("look")
    made.agent = (talker := Talker()).agent()
    (asked,) = turn.response.tool_calls or []
    await made.run(ToolResultMessage([ToolResult(asked.tool_call_id, "by hand")]))
    assert talker.told == [["look", "", "by hand"]]


@pytest.mark.parametrize("way", ["run", "resume", "restore"])
async def test_a_sessions_own_run_cannot_wait_for_itself(way: str) -> None:
    """Not from a tool, not from one of another session's that it runs: they would wait for ever."""
    problems: list[str] = []

    @tool
    async def again(word: str) -> str:
        """Again."""
        ways = {"run": lambda: outer.run(word), "resume": outer.resume, "restore": lambda: outer.restore(word)}
        with pytest.raises(InvalidInput) as raised:
            await ways[way]()
        problems.append(str(raised.value))
        return ""

    inner = session(Talker(tool_name="again").agent(tools=[again]))

    @tool
    async def begin(word: str) -> str:
        """Run another session."""
        return (await inner.run("look")).response.text

    outer = session(Talker(tool_name="begin").agent(tools=[begin]))
    await outer.run("look")
    assert len(problems) == 1
    assert outer.id in problems[0]
    assert said(outer)[-1] == "re: look"


async def test_a_task_that_a_run_left_behind_may_use_the_session() -> None:
    release, tasks = asyncio.Event(), list[asyncio.Task[Any]]()

    async def later() -> None:
        await release.wait()
        assert current_run() is None
        await made.run("two")

    async def leave(_: int, __: StepResult) -> None:
        if not tasks:
            tasks.append(asyncio.create_task(later()))

    made = session(Talker().agent(strategy=AgentStrategy(on_step_end=leave)))
    await made.run("one")
    release.set()
    await tasks[0]
    assert said(made) == ["one", "re: one", "two", "re: two"]
