"""Going on with a run from a checkpoint: what the host is given, and where its turn goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput, ServerError
from perdure.execution import loop
from perdure.inprocess import InProcessHost
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.hook_calls import call_hook
from perdure.uap.hooks import Hook, HookCall
from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.uap.options import RunOptions
from perdure.uap.session import Session, session
from perdure.uap.state import ExecutionState
from perdure.upp.errors import UPPError
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.turn import Turn
from tests.conformance.uap_session_stage import Talker, texts


@dataclass
class GoesOn:
    """A host that goes on by one step, in which "went on" is said; or fails, or returns another turn.

    Attributes:
        given: the history and the state of each call.
    """

    error: Exception | None = None
    turn: Turn | None = None
    given: list[tuple[list[Message], ExecutionState]] = field(
        default_factory=list[tuple[list[Message], ExecutionState]]
    )
    options: RunOptions | None = None

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        return await InProcessHost().run(agent, history, message, options)

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        raise NotImplementedError

    async def resume(
        self, agent: Agent, history: Sequence[Message], state: ExecutionState, options: RunOptions
    ) -> Turn:
        self.given.append((list(history), state))
        self.options = options
        state.step += 1
        state.messages = [*state.messages, AssistantMessage("went on")]
        turn = Turn(state.messages, state.tool_executions, state.usage, state.cycles)
        await call_hook(agent.strategy, HookCall(Hook.STEP_END, state.step, state, turn=turn))
        if self.error is not None:
            raise self.error
        return self.turn or turn


class CannotGoOn:
    """A host that only runs."""

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        return await InProcessHost().run(agent, history, message, options)

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        raise NotImplementedError


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> GoesOn:
    """The host that serves."""
    serving = GoesOn()
    monkeypatch.setattr(host, "_default", [serving])
    return serving


async def broken() -> Session:
    """A session whose second run failed after its first step."""
    made = session(Talker().agent())
    await made.run("one")
    with pytest.raises(UPPError):
        await made.run("break")
    return made


BEFORE = ["one", "re: one"]
AFTER_A_STEP = ["break", "look", "seen w0"]


async def test_the_host_gets_the_history_before_the_run_and_the_state_after_the_step(here: GoesOn) -> None:
    made = await broken()
    options = RunOptions(max_steps=7)
    turn = await made.resume(options=options)
    ((history, state),) = here.given
    assert texts(history) == BEFORE
    assert texts(state.messages) == [*AFTER_A_STEP, "went on"]
    assert here.options is options
    assert texts(turn.messages) == [*AFTER_A_STEP, "went on"]


async def test_the_turn_is_in_the_thread_once(here: GoesOn) -> None:
    """In a branch, since the failed run's node is not touched."""
    made = await broken()
    root = made.thread_tree.root.thread.to_json()
    await made.resume()
    assert texts(made.thread_tree.history()) == [*BEFORE, *AFTER_A_STEP, "went on"]
    assert made.thread_tree.root.thread.to_json() == root
    assert len(made.thread_tree.nodes) == 2


async def test_steps_after_it_have_checkpoints_of_the_branch(here: GoesOn) -> None:
    made = await broken()
    await made.resume()
    last = made.checkpoints[-1]
    assert (last.step, last.thread_id, last.metadata["threadLength"]) == (2, made.thread_tree.current.id, 0)
    assert made.current_checkpoint is last
    assert last.state.done
    assert not made.checkpoints[-2].state.done


async def test_the_recorded_state_is_not_touched(here: GoesOn) -> None:
    made = await broken()
    before = made.checkpoints[-1].to_json()
    await made.resume()
    assert made.checkpoints[1].to_json() == before


async def test_a_restored_checkpoint_is_gone_on_from_where_it_was_restored(here: GoesOn) -> None:
    made = session(Talker(rounds=2).agent())
    await made.run("look")
    await made.restore(made.checkpoints[0].id)
    branch = made.thread_tree.current
    await made.resume()
    assert made.thread_tree.current is branch
    assert texts(made.thread_tree.history()) == ["look", "look", "seen w0", "went on"]


async def test_a_session_that_was_loaded_goes_on_too(here: GoesOn) -> None:
    """After a crash, and after a restore."""
    made = await broken()
    again = Session.from_json(made.to_json(), made.agent)
    await again.resume()
    await made.restore(made.checkpoints[1].id)
    restored = Session.from_json(made.to_json(), made.agent)
    await restored.resume()
    for one in (again, restored):
        assert texts(one.thread_tree.history()) == [*BEFORE, *AFTER_A_STEP, "went on"]
        assert len(one.thread_tree.nodes) == 2


async def test_going_on_twice_from_one_checkpoint_makes_two_branches(here: GoesOn) -> None:
    made = await broken()
    point = made.checkpoints[-1].id
    await made.resume()
    first = made.thread_tree.current
    await made.restore(point)
    await made.resume()
    assert made.thread_tree.current is not first
    for node in (first, made.thread_tree.current):
        assert texts(made.thread_tree.history(node.id)) == [*BEFORE, *AFTER_A_STEP, "went on"]


async def test_a_failure_leaves_the_thread_as_restored(here: GoesOn) -> None:
    made = await broken()
    here.error = ValueError("again")
    with pytest.raises(ValueError, match="again"):
        await made.resume()
    assert texts(made.thread_tree.history()) == [*BEFORE, *AFTER_A_STEP]
    assert made.checkpoints[-1].step == 2
    here.error = None
    await made.resume()
    assert texts(made.thread_tree.history()) == [*BEFORE, *AFTER_A_STEP, "went on", "went on"]


async def test_a_turn_that_is_another_goes_into_a_branch_of_its_own(here: GoesOn) -> None:
    """As one of `on_error`, which need not begin as the run did."""
    here.turn = await Talker().agent().run("sorry")
    made = await broken()
    await made.resume()
    assert texts(made.thread_tree.history()) == [*BEFORE, "sorry", "re: sorry"]
    assert not made.checkpoints[-1].state.done


async def test_a_turn_that_is_there_already_moves_nothing(here: GoesOn) -> None:
    """Not even the thread's date."""
    first = session(Talker().agent())
    here.turn = await first.run("one")
    document = cast("dict[str, Any]", first.to_json())
    document["threadTree"]["nodes"][0]["thread"]["updatedAt"] = "2001-01-01T00:00:00.000Z"
    made = Session.from_json(document, first.agent)
    await made.resume()
    assert made.thread_tree.to_json() == document["threadTree"]


async def test_open_calls_before_the_run_get_errors(here: GoesOn) -> None:
    made = session(Talker().agent(execution=loop(max_iterations=0)))
    await made.run("look")
    made.agent = Talker().agent()
    await made.run("two")
    await made.resume()
    ((history, _),) = here.given
    assert texts(history) == ["look", "look", NOT_CARRIED_OUT]


async def test_by_turn_the_whole_turn_has_the_checkpoint(here: GoesOn) -> None:
    made = await broken()
    again = Session.from_json(made.to_json(), made.agent, checkpoint_interval="turn")
    await again.resume()
    assert len(again.checkpoints) == len(made.checkpoints) + 1
    assert texts(again.checkpoints[-1].state.messages) == [*AFTER_A_STEP, "went on"]


async def test_what_sub_agents_came_to_stays_with_the_run(here: GoesOn) -> None:
    made = await broken()
    child = session(Talker().agent()).to_json()
    made.checkpoints[-1].sub_agent_states["call"] = child
    await made.resume()
    assert made.checkpoints[-1].sub_agent_states == {"call": child}


async def test_without_a_checkpoint_there_is_nothing_to_go_on_with(here: GoesOn) -> None:
    with pytest.raises(InvalidInput, match=r"no checkpoint of a run; start one with run"):
        await session(Talker().agent()).resume()


async def test_a_host_whose_steps_cannot_be_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs: neither a run nor its going on would leave checkpoints."""
    made = await broken()
    before = made.to_json()
    monkeypatch.setattr(host, "_default", [CannotGoOn()])
    for work in (made.resume, lambda: made.run("go")):
        with pytest.raises(ServerError, match="no host here can go on with a run"):
            await work()
    assert made.to_json() == before


async def test_a_session_begun_in_process_stays_there_when_another_host_is_connected(here: GoesOn) -> None:
    """And so do the agents that its run runs."""
    made = await broken()
    with host.connected(CannotGoOn()):
        await made.resume()
    assert len(here.given) == 1
