"""Going on from every checkpoint of a run in process comes to what the run came to."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from perdure import agent
from perdure.execution import loop, plan, react
from perdure.uap.agent import Agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.hooks import AgentStrategy
from perdure.uap.session import Session, session
from perdure.upp.errors import UPPError
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.turn import Turn
from tests.conformance.uap_session_stage import Talker, look, texts
from tests.unit.uap.test_session_machine import Sessions

LOOK = call("look", word="w")
PLANNED = json.dumps({"steps": [{"id": str(n), "description": f"do {n}.", "tool": "look"} for n in range(8)]})
SCRIPTS: dict[str, list[ScriptedAnswer]] = {
    "loop": [*[LOOK] * 29, "end"],
    "react": [*["thinking", LOOK] * 9, "thinking", "end"],
    "plan": [PLANNED, *[LOOK, "did it"] * 8],
}


def scripted_agent(execution: NamedStrategy, strategy: AgentStrategy | None = None) -> Agent:
    script = SCRIPTS[execution.name]

    def answer(request: LLMRequest) -> ScriptedAnswer:
        return script[sum(isinstance(message, AssistantMessage) for message in request.messages)]

    return agent(model=scripted(answer), tools=[look], execution=execution, strategy=strategy)


@pytest.mark.parametrize("execution", [loop(max_iterations=40), react(), plan()], ids=lambda execution: execution.name)
async def test_going_on_from_any_checkpoint_comes_to_the_same(execution: NamedStrategy) -> None:
    """In a session that was loaded: restored exactly, then gone on with; the old branch is untouched."""
    own = scripted_agent(execution)
    made = session(own)
    turn = await made.run("go")
    document, root = made.to_json(), made.thread_tree.root.thread.to_json()
    assert len(made.checkpoints) >= 9
    for place, taken in enumerate(made.checkpoints):
        again = Session.from_json(document, own)
        await again.restore(taken.id)
        assert again.state == taken.state
        resumed = await again.resume()
        assert told(resumed) == told(turn)
        assert texts(again.thread_tree.history()) == texts(made.thread_tree.history())
        assert again.thread_tree.root.thread.to_json() == root
        steps = [item.step for item in again.checkpoints[len(made.checkpoints) :]]
        assert steps == [item.step for item in made.checkpoints[place + 1 :]]
        end, then = again.checkpoints[-1].state, made.checkpoints[-1].state
        assert (end.reasoning, end.plan, end.usage, end.done) == (then.reasoning, then.plan, then.usage, True)


def told(turn: Turn) -> object:
    calls = [(item.tool_name, item.arguments, item.result, item.is_error) for item in turn.tool_executions]
    return texts(turn.messages), calls, turn.usage, turn.cycles


async def test_a_run_that_failed_goes_on_after_its_last_step() -> None:
    talker = Talker(rounds=2, failures=1)
    made = session(talker.agent())
    with pytest.raises(UPPError, match="broken"):
        await made.run("break")
    asked = len(talker.told)
    turn = await made.resume()
    assert texts(turn.messages) == ["break", "look", "seen w0", "look", "seen w1", "re: break"]
    assert len(talker.told) == asked + 1
    assert texts(made.thread_tree.history()) == texts(turn.messages)


async def test_a_run_that_is_done_gives_its_turn_again_and_asks_nobody() -> None:
    talker = Talker()
    made = session(talker.agent())
    turn = await made.run("look")
    asked, count = len(talker.told), len(made.checkpoints)
    assert (await made.resume()).to_json() == turn.to_json()
    assert (len(talker.told), len(made.checkpoints), len(made.thread_tree.nodes)) == (asked, count, 1)
    assert texts(made.thread_tree.history()) == texts(turn.messages)


async def test_hooks_are_called_for_the_steps_that_are_left() -> None:
    seen: list[str] = []
    strategy = AgentStrategy(
        on_step_start=lambda step, state: seen.append(f"start {step}"),
        on_step_end=lambda step, result: seen.append(f"end {step}"),
        on_complete=lambda turn: seen.append("complete"),
    )
    made = session(Talker(rounds=2).agent(strategy=strategy))
    await made.run("look")
    seen.clear()
    await made.restore(made.checkpoints[1].id)
    await made.resume()
    assert seen == ["start 3", "end 3", "complete"]


async def test_the_stop_condition_is_asked_at_the_boundary() -> None:
    """A run that was cut off between a step's end and this question would go on otherwise."""
    talker = Talker(rounds=5)
    made = session(talker.agent(strategy=AgentStrategy(stop_condition=lambda state: state.step >= 2)))
    await made.run("look")
    made.checkpoints[-1].state.done = False
    asked = len(talker.told)
    turn = await made.resume()
    assert len(talker.told) == asked
    assert texts(turn.messages) == ["look", "look", "seen w0", "look", "seen w1"]


class ResumedSessions(Sessions):
    """The sessions of `test_session_machine`, whose runs are also gone on with from wherever they stand."""

    @rule()
    def resume(self) -> None:
        current, known = self.session.current_checkpoint, len(self.session.checkpoints)
        if current is None:
            return
        self.talker.failures = 0
        self.wait(self.session.resume())
        self.talker.failures = 10**6
        conversation, step = self.taken[current.id]
        self.histories[self.current] = conversation.history
        assert len(self.session.checkpoints) == known + len(conversation.ends) - step
        if step < len(conversation.ends):
            self.note(conversation, known, step)


TestResumedSessions = ResumedSessions.TestCase
TestResumedSessions.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
