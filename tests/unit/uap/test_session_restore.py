"""Branches of a session, made and gone back to."""

from __future__ import annotations

import pytest

from perdure.errors import InvalidInput
from perdure.execution import plan, react
from perdure.uap.agent import agent
from perdure.uap.hooks import AgentStrategy
from perdure.uap.session import session
from perdure.upp.providers.scripted import call, scripted
from tests.conformance.uap_session_stage import LOOKED, Talker, said


async def test_fork_makes_a_branch_and_stays_where_it_is() -> None:
    made = session(Talker().agent())
    await made.run("one")
    root = made.thread_tree.root.id
    node = made.fork(root, "other way")
    assert made.thread_tree.current.id == root
    assert (made.thread_tree.nodes[node].parent_id, made.thread_tree.nodes[node].name) == (root, "other way")
    await made.run("two")
    made.thread_tree.checkout(node)
    await made.run("three")
    assert said(made) == ["one", "re: one", "three", "re: three"]
    with pytest.raises(InvalidInput, match="Node not found"):
        made.fork("nowhere")


async def test_restore_goes_back_to_where_a_checkpoint_was_taken() -> None:
    """Also in the middle of a run; what was said since stays on its branch."""
    talker = Talker()
    made = session(talker.agent())
    await made.run("one")
    await made.run("look")
    old = made.thread_tree.root.thread.to_json()
    middle = made.checkpoints[1]
    await made.restore(middle.id)
    assert said(made) == ["one", "re: one", "look", "look", "seen w0"]
    assert (made.current_checkpoint, made.state) == (middle, middle.state)
    await made.run("three")
    assert talker.told[-1] == ["one", "re: one", "look", "", "seen w0", "three"]
    assert made.thread_tree.root.thread.to_json() == old
    assert len(made.checkpoints) == 4
    assert made.current_checkpoint is made.checkpoints[-1]


async def test_restore_of_what_was_said_last_makes_no_branch() -> None:
    made = session(Talker().agent())
    await made.run("look")
    await made.restore(made.checkpoints[-1].id)
    assert (len(made.thread_tree.nodes), said(made)) == (1, LOOKED)


async def test_restore_of_a_node_that_others_branched_from_makes_a_branch() -> None:
    made = session(Talker().agent())
    await made.run("one")
    made.fork(made.thread_tree.root.id)
    await made.restore(made.checkpoints[0].id)
    assert made.thread_tree.current is not made.thread_tree.root
    assert said(made) == ["one", "re: one"]


async def test_restoring_twice_makes_one_branch() -> None:
    made = session(Talker().agent())
    await made.run("look")
    await made.restore(made.checkpoints[0].id)
    node = made.thread_tree.current
    await made.restore(made.checkpoints[1].id)
    await made.restore(made.checkpoints[0].id)
    assert made.thread_tree.current is node
    await made.run("two")
    await made.restore(made.checkpoints[0].id)
    assert made.thread_tree.current is not node
    assert said(made) == ["look", "look", "seen w0"]


async def test_restore_leaves_the_strategys_own_messages_out_of_the_thread() -> None:
    script = ["thinking", call("look", word="w"), "thinking on", "end"]
    made = session(agent(model=scripted(script), tools=Talker().agent().tools, execution=react()))
    await made.run("go")
    await made.restore(made.checkpoints[0].id)
    assert said(made) == ["go", "look", "seen w"]
    state = made.state
    assert state is not None
    assert state.reasoning == ["thinking"]
    assert len(state.messages) == 6


async def test_a_plan_that_stands_in_for_an_answer_is_restored_with_the_rest() -> None:
    """As it is in the turn of a run that is stopped after its planning."""
    planned = '{"steps": [{"id": "a", "description": "look"}]}'
    stop = AgentStrategy(stop_condition=lambda state: True)
    made = session(agent(model=scripted([planned]), execution=plan(), strategy=stop))
    await made.run("go")
    await made.restore(made.checkpoints[0].id)
    assert said(made) == ["go", planned]
    assert len(made.thread_tree.nodes) == 1
    assert made.checkpoints[0].state.done


async def test_the_state_is_the_callers() -> None:
    made = session(Talker().agent())
    await made.run("one")
    state = made.state
    assert state is not None
    state.messages.clear()
    state.metadata["x"] = 1
    assert made.state == made.checkpoints[0].state != state


async def test_an_unknown_checkpoint_is_refused_and_nothing_changes() -> None:
    made = session(Talker().agent())
    await made.run("one")
    before = made.to_json()
    with pytest.raises(InvalidInput, match="Checkpoint not found: nowhere"):
        await made.restore("nowhere")
    assert made.to_json() == before
