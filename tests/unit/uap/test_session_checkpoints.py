"""When checkpoints are taken, and what they hold."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from perdure.errors import StrategyError
from perdure.execution import loop, plan, react
from perdure.uap.active_session import current_run
from perdure.uap.agent import agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.ids import is_uuid4
from perdure.uap.session import Session, session
from perdure.uap.state import ExecutionState
from perdure.upp.errors import UPPError
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.providers.scripted import call, scripted
from tests.conformance.uap_session_stage import LOOKED, Talker, said, texts


@pytest.mark.parametrize("execution", [loop(), react(), plan()], ids=lambda execution: execution.name)
async def test_a_checkpoint_is_taken_at_every_steps_end_after_the_users_hook(execution: NamedStrategy) -> None:
    """With a copy of the state as the hook left it."""
    states: list[ExecutionState] = []

    async def note(step: int, result: StepResult) -> None:
        assert len(made.checkpoints) == step - 1
        await asyncio.sleep(0)
        result.state.metadata["note"] = [step]
        states.append(result.state)

    planned = '{"steps": [{"id": "a", "description": "look", "tool": "look", "dependsOn": []}]}'
    script = [planned, call("look", word="w"), "end"] if execution.name == "plan" else [call("look", word="w")] * 3
    look = Talker().agent().tools
    own = agent(
        model=scripted([*script, "end", "end"]),
        tools=look,
        execution=execution,
        strategy=AgentStrategy(on_step_end=note),
    )
    made = session(own)
    await made.run("go")
    assert (
        [item.state.step for item in made.checkpoints]
        == [state.step for state in states]
        == [*range(1, len(states) + 1)]
    )
    for taken, state in zip(made.checkpoints, states, strict=True):
        assert taken.state.messages == state.messages
        assert (taken.state.reasoning, taken.state.plan) == (state.reasoning, state.plan)
        assert (taken.state.usage, taken.state.tool_executions) == (state.usage, state.tool_executions)
        assert taken.state.metadata == {"note": [taken.step]}
        assert taken.state is not state


async def test_a_checkpoint_is_as_the_specification_has_it() -> None:
    made = session(Talker().agent())
    await made.run("zero")
    await made.run("look")
    first = made.checkpoints[1]
    assert is_uuid4(first.id)
    assert (first.session_id, first.step, first.thread_id) == (made.id, 1, made.thread_tree.root.id)
    assert first.metadata["threadLength"] == 2
    assert is_uuid4(str(first.metadata["stepId"]))
    assert first.metadata["runId"] == made.checkpoints[2].metadata["runId"] != made.checkpoints[0].metadata["runId"]
    assert len({item.id for item in made.checkpoints}) == 3
    assert len({str(item.metadata["stepId"]) for item in made.checkpoints}) == 3
    assert first.sub_agent_states == {}


async def test_a_checkpoint_does_not_change_when_its_run_goes_on() -> None:
    def note(step: int, result: StepResult) -> None:
        cast("list[int]", result.state.metadata.setdefault("steps", [])).append(step)
        kept.append([item.to_json() for item in made.checkpoints])

    kept: list[list[JSONObject]] = []
    made = session(Talker(rounds=3).agent(strategy=AgentStrategy(on_step_end=note)))
    await made.run("look")
    assert [item.state.metadata["steps"] for item in made.checkpoints] == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]
    assert kept[-1] == [item.to_json() for item in made.checkpoints][:-1]


async def test_only_the_checkpoint_at_its_runs_end_is_done() -> None:
    made = session(Talker(rounds=2).agent())
    await made.run("look")
    assert [item.state.done for item in made.checkpoints] == [False, False, True]
    assert made.current_checkpoint is made.checkpoints[-1]


async def test_a_run_that_a_condition_stopped_is_done() -> None:
    stop = AgentStrategy(stop_condition=lambda state: state.step == 2)
    made = session(Talker(rounds=5).agent(strategy=stop))
    await made.run("look")
    assert [item.state.done for item in made.checkpoints] == [False, True]


async def test_a_hook_that_fails_fails_the_run_and_there_is_no_checkpoint_of_its_step() -> None:
    def fail(_: int, __: StepResult) -> None:
        raise ValueError("mine")

    made = session(Talker().agent(strategy=AgentStrategy(on_step_end=fail)))
    with pytest.raises(ValueError, match="mine"):
        await made.run("one")
    assert (made.checkpoints, said(made)) == ([], [])


async def test_a_hook_that_leaves_metadata_that_is_no_json_is_found_out() -> None:
    def leave(_: int, result: StepResult) -> None:
        result.state.metadata["file"] = cast(Any, object())

    made = session(Talker().agent(strategy=AgentStrategy(on_step_end=leave)))
    with pytest.raises(StrategyError, match="not JSON"):
        await made.run("one")
    assert made.checkpoints == []


async def test_by_turn_there_is_one_checkpoint_when_the_turn_is_in_the_thread() -> None:
    made = session(Talker().agent(), checkpoint_interval="turn")
    await made.run("look")
    await made.run("two")
    assert [texts(item.state.messages) for item in made.checkpoints] == [LOOKED, ["two", "re: two"]]
    assert [(item.step, item.metadata["threadLength"], item.state.done) for item in made.checkpoints] == [
        (2, 0, True),
        (1, 4, True),
    ]
    with pytest.raises(UPPError, match="broken"):
        await made.run("break")
    assert len(made.checkpoints) == 2


@pytest.mark.parametrize("rounds", [0, 1])
async def test_by_turn_a_recovered_runs_checkpoint_holds_the_turn(rounds: int) -> None:
    """Whether or not a step had ended before."""
    sorry = await Talker().agent().run("sorry")
    made = session(
        Talker(rounds=rounds).agent(strategy=AgentStrategy(on_error=lambda error, state: sorry)),
        checkpoint_interval="turn",
    )
    await made.run("break")
    assert said(made) == ["sorry", "re: sorry"]
    assert [texts(item.state.messages) for item in made.checkpoints] == [["sorry", "re: sorry"]]
    await made.restore(made.checkpoints[0].id)
    assert len(made.thread_tree.nodes) == 1


async def test_by_turn_what_a_hook_keeps_of_the_state_is_a_copy() -> None:
    kept: list[ExecutionState] = []
    strategy = AgentStrategy(
        on_step_end=lambda step, result: kept.append(result.state),
        on_complete=lambda turn: kept[0].metadata.update(late=True),
    )
    made = session(Talker().agent(strategy=strategy), checkpoint_interval="turn")
    await made.run("one")
    assert made.checkpoints[0].state.metadata == {}


async def test_no_checkpoints_are_taken_if_none_are_wanted() -> None:
    made = session(Talker().agent(), checkpoints=False)
    await made.run("look")
    assert (made.checkpoints, made.current_checkpoint, said(made)) == ([], None, LOOKED)


async def test_what_sub_agents_came_to_is_in_the_next_checkpoints_of_the_run() -> None:
    """Those that have finished, by tool call; other runs have none of them."""
    child: JSONObject = session(Talker().agent()).to_json()

    @tool
    async def delegate(word: str) -> str:
        """Delegate."""
        run = current_run()
        assert run is not None
        run.sub_agent_states[word] = child
        return word

    made = session(Talker(tool_name="delegate", rounds=2).agent(tools=[delegate]))
    await made.run("look")
    await made.run("two")
    assert [set(item.sub_agent_states) for item in made.checkpoints] == [{"w0"}, {"w0", "w1"}, {"w0", "w1"}, set()]
    assert Session.from_json(made.to_json(), made.agent).checkpoints[0].sub_agent_states == {"w0": child}


def test_the_list_of_checkpoints_is_the_callers() -> None:
    made = session(Talker().agent())
    made.checkpoints.append(cast(Any, None))
    assert made.checkpoints == []
