"""Strategies of one's own, as specification 5.1, 5.5 and 14.2 and the facts of UAP's own tests have them; in both hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import agent
from perdure.errors import InvalidInput, LimitExceeded, StrategyError
from perdure.inprocess import InProcessHost
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.app import App
from perdure.uap.execution import ExecutionContext
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.options import RunOptions
from perdure.uap.session import session
from perdure.uap.state import ExecutionState
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.turn import Turn
from tests.integration.custom_strategies import Custom, Debate, agents, custom, look


def run(made: Agent, given: str | Message = "hi", history: Sequence[Message] = ()) -> Any:
    message = UserMessage(given) if isinstance(given, str) else given
    return InProcessHost().run(made, list(history), message, RunOptions())


class Seen:
    """Hooks that note what they are given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start(self, step: int, state: ExecutionState) -> None:
        self.calls.append(("start", step, state.step, len(state.messages)))
        state.metadata["started"] = step

    async def end(self, step: int, result: StepResult) -> None:
        await asyncio.sleep(0.01)  # longer than the strategy takes to return
        self.calls.append(("end", step, [message.text for message in result.state.messages], result.state.metadata))

    def complete(self, turn: Turn) -> None:
        self.calls.append(("complete", turn))

    @property
    def hooks(self) -> AgentStrategy:
        return AgentStrategy(on_step_start=self.start, on_step_end=self.end, on_complete=self.complete)


async def test_5_5_the_example_runs_as_it_is_written() -> None:
    """Hooks that nobody awaits are called in order, each with the state as it was."""
    seen = Seen()
    turn = await run(agent(model=scripted(["hello"]), execution=Custom(), strategy=seen.hooks))
    assert [message.text for message in turn.messages] == ["hi", "hello"]
    assert seen.calls == [
        ("start", 1, 1, 0), ("end", 1, ["hi", "hello"], {"started": 1}), ("complete", turn),
    ]  # fmt: skip


async def test_5_1_the_context_has_all_its_eight_fields() -> None:
    """In process they are the very objects."""
    contexts: list[ExecutionContext] = []

    class Looks(Custom):
        async def execute(self, context: ExecutionContext) -> Turn:
            contexts.append(context)
            return await context.llm.generate(context.history, context.input)

    given, before = UserMessage("hi"), [UserMessage("before"), AssistantMessage("then")]
    made = agent(model=scripted(lambda request: "hello"), system="Be kind.", tools=[look], execution=Looks())
    await run(made, given, before)
    (context,) = contexts
    assert context.agent is made
    assert context.input is given
    assert list(context.history) == before
    assert [tool.name for tool in context.tools] == ["look"]
    assert (context.llm.model, context.llm.system, context.llm.params) == (made.model, "Be kind.", {})
    assert context.llm.capabilities.tools
    assert not context.signal.aborted
    assert context.strategy
    assert (context.state.step, context.state.messages, context.state.metadata) == (0, [], {})


async def test_4_run_returns_the_very_turn() -> None:
    """Whatever the strategy made of it."""
    made: list[Turn] = []

    class Own(Custom):
        async def execute(self, context: ExecutionContext) -> Turn:
            asked = await context.llm.generate("something else")
            made.append(Turn([context.input, AssistantMessage("my word")], [], asked.usage, 7))
            return made[0]

    assert await run(agent(model=scripted(["hello"]), execution=Own())) is made[0]


async def test_6_and_8_a_stream_is_the_strategys_own() -> None:
    """Two events in, two events out; the turn is the last one's."""
    with host.connected(InProcessHost()):
        stream = agents["quiet"].stream("hi")
        events = [event async for event in stream]
    assert [event.uap and event.uap.data for event in events] == [{"text": "thought 1"}, {"text": "thought 2"}]
    assert len((await stream.turn).messages) == 2


async def test_calls_at_once_keep_their_order() -> None:
    """The turn is the input and the judge's word."""
    turn = await run(agents["debate"])
    assert [message.text[:20] for message in turn.messages] == ["hi", "judge", "answer to 'judge' th"]


async def test_tools_run_in_the_model_calls_loop_to_its_limit() -> None:
    """As UPP's own loop: the results are sent back, and the eleventh round is refused."""
    made = agent(model=scripted([call("look", name="x", key="y")] * 12), tools=[look], execution=Custom())
    with pytest.raises(UPPError, match="maximum iterations \\(10\\)") as raised:
        await run(made)
    assert raised.value.code == ErrorCode.INVALID_REQUEST


async def test_a_hook_that_nobody_awaits_fails_the_run() -> None:
    """What it raised is raised at the next call."""

    def start(step: int, state: ExecutionState) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run(agent(model=scripted([]), execution=Custom(), strategy=AgentStrategy(on_step_start=start)))


async def test_the_runs_limit_of_steps_holds() -> None:
    """A step beyond it is not begun."""
    made = agents["debate"]
    with pytest.raises(LimitExceeded):
        await InProcessHost().run(made, [], UserMessage("hi"), RunOptions(max_steps=1))


async def test_a_stop_condition_must_be_awaited() -> None:
    """Its answer is no bool before."""

    class Hasty(Custom):
        async def execute(self, context: ExecutionContext) -> Turn:
            assert not context.strategy.stop_condition(context.state)
            return await super().execute(context)

    with pytest.raises(StrategyError, match="must be awaited"):
        await run(agent(model=scripted(["hello"]), execution=Hasty()))


async def test_metadata_that_is_no_json_is_refused() -> None:
    """When the step ends."""

    class Odd(Custom):
        async def execute(self, context: ExecutionContext) -> Turn:
            context.state.metadata["odd"] = object()  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
            return await super().execute(context)

    with pytest.raises(StrategyError, match="not JSON"):
        await run(agent(model=scripted(["hello"]), execution=Odd()))


async def test_aborting_a_stream_raises_the_signal() -> None:
    """The strategy sees it where it is interrupted."""
    seen: list[tuple[bool, str | None]] = []
    begun = asyncio.Event()

    class Watches(Custom):
        async def execute(self, context: ExecutionContext) -> Turn:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append((context.signal.aborted, context.signal.reason))
            raise AssertionError

    work = asyncio.create_task(run(agent(model=scripted([]), execution=Watches())))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert seen == [(True, "the run was cancelled")]


async def test_4_25_a_session_takes_a_checkpoint_at_each_step() -> None:
    """A strategy of one's own needs to do nothing for it."""
    made = session(agent(model=scripted(["hello"]), execution=Custom(), strategy=Seen().hooks))
    await made.run("hi")
    (checkpoint,) = made.checkpoints
    assert checkpoint.state.metadata == {"started": 1}
    assert [message.text for message in checkpoint.state.messages] == ["hi", "hello"]


def test_a_worker_finds_a_strategy_by_its_name_or_its_class() -> None:
    """A global of the module, or a class with options; both as the frozen spec says it."""
    assert agents["custom"].spec().strategy.source == "tests.integration.custom_strategies:custom"
    spec = agents["debate"].spec().strategy
    assert (spec.source, spec.options) == ("tests.integration.custom_strategies:Debate", {"rounds": 2})
    assert agents["resumes"].spec().strategy.resumable
    assert agent(model=scripted([]), execution=custom).copy().custom is custom


def test_a_strategy_that_no_worker_finds_is_refused() -> None:
    """When the app is made; in process it runs."""

    class Local(Custom):
        pass

    with pytest.raises(InvalidInput, match="cannot find strategy 'custom' again"):
        App(agents=[agent(name="local", model=scripted([]), execution=Local())])
    assert Debate(3).options == {"rounds": 3}
    with pytest.raises(InvalidInput, match="Assign it to a name"):
        App(agents=[agent(name="odd", model=scripted([]), execution=Odd(lambda: 3))])


class Odd(Custom):
    """Its options are no JSON."""

    def __init__(self, rounds: Any) -> None:
        self.options = {"rounds": rounds}
