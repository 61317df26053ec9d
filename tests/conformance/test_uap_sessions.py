"""Sessions, ask and query: UAP's facts and readings by their numbers in the reference; in process."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.execution import loop, plan, react
from perdure.uap.agent import agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.conversations import ask, query
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.ids import is_uuid4
from perdure.uap.persistence import memory
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session import Session, session
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.errors import UPPError
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.thread import Thread
from perdure.upp.tool_call import ToolCall
from perdure.upp.turn import Turn
from tests.conformance.uap_session_stage import LOOKED, WHEN, Talker, example, loaded, look, parts, said, texts

PLANNED = json.dumps({"steps": [{"id": "a", "description": "look.", "tool": "look"}]})
SCRIPTS: dict[str, list[ScriptedAnswer]] = {
    "loop": [*[call("look", word="w")] * 29, "end"],
    "react": ["thinking", call("look", word="w"), "thinking on", "end"],
    "plan": [PLANNED, call("look", word="w"), "did it"],
}


async def ran(execution: NamedStrategy) -> tuple[Session, Turn]:
    made = session(agent(model=scripted(SCRIPTS[execution.name]), tools=[look], execution=execution))
    return made, await made.run("go")


async def test_reading_4_2_every_step_has_an_id_in_its_checkpoint() -> None:
    made, _ = await ran(react())
    ids = [item.metadata["stepId"] for item in made.checkpoints]
    assert all(is_uuid4(str(item)) for item in ids)
    assert len({str(item) for item in ids}) == 2


async def test_reading_4_4_a_checkpoint_names_its_tree_node() -> None:
    made = session(Talker().agent())
    await made.run("one")
    assert made.checkpoints[0].thread_id == made.thread_tree.root.id != made.thread_tree.root.thread.id
    assert loaded(example()).checkpoints[0].thread_id == "node_root"


async def test_reading_4_6b_a_checkpoint_is_a_snapshot() -> None:
    def note(step: int, result: StepResult) -> None:
        cast("list[int]", result.state.metadata.setdefault("steps", [])).append(step)

    made = session(Talker(rounds=2).agent(strategy=AgentStrategy(on_step_end=note)))
    await made.run("look")
    assert [len(item.state.messages) for item in made.checkpoints] == [3, 5, 6]
    assert [item.state.metadata["steps"] for item in made.checkpoints] == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("execution", [loop(max_iterations=40), react(), plan()], ids=lambda item: item.name)
async def test_reading_4_22_every_checkpoint_can_be_restored_exactly(execution: NamedStrategy) -> None:
    """Thirty steps in the loop's case; and the old branch is untouched."""
    made, _ = await ran(execution)
    old = made.thread_tree.root.to_json() | {"children": []}
    for taken in made.checkpoints:
        again = loaded(made.to_json())
        await again.restore(taken.id)
        assert again.state == taken.state
        spoken = [message for message in taken.state.messages if not scaffold_of(message)]
        if len(spoken) > 1:  # after planning alone, the plan stands in for an answer
            assert again.thread_tree.history() == spoken
        await again.run("next")
        assert again.thread_tree.root.to_json() | {"children": []} == old or len(again.thread_tree.nodes) == 1
        assert again.checkpoints[: len(made.checkpoints)][-1].to_json() == made.checkpoints[-1].to_json()


async def test_reading_4_22_restore_makes_a_branch_where_the_run_began() -> None:
    made = session(Talker().agent())
    await made.run("one")
    await made.run("look")
    assert [item.metadata["threadLength"] for item in made.checkpoints] == [0, 2, 2]
    await made.restore(made.checkpoints[1].id)
    current = made.thread_tree.current
    assert (current.parent_id, current.fork_index) == (made.thread_tree.root.id, 2)
    assert texts(current.thread.messages) == ["look", "look", "seen w0"]
    assert len(made.checkpoints) == 3
    with pytest.raises(InvalidInput, match="Checkpoint not found"):
        await made.restore("nowhere")


async def test_reading_4_22_an_untouched_node_needs_no_branch() -> None:
    made = session(Talker().agent())
    await made.run("look")
    await made.restore(made.checkpoints[-1].id)
    assert len(made.thread_tree.nodes) == 1


async def test_reading_4_23_open_calls_get_errors_before_a_run() -> None:
    talker, document = Talker(), cast("dict[str, Any]", example())
    opened: Message = AssistantMessage("", [ToolCall("c", "look", {})], timestamp=WHEN)
    document["threadTree"]["nodes"][1]["thread"]["messages"].append(opened.to_json())
    await Session.from_json(document, talker.agent()).run("on")
    assert talker.told[0][-3:] == ["", "the call was not carried out: the run ended before", "on"]


async def test_reading_4_24_the_current_checkpoint_is_the_latest_or_the_restored_one() -> None:
    made = session(Talker().agent())
    assert made.current_checkpoint is None
    await made.run("look")
    assert made.current_checkpoint is made.checkpoints[1]
    await made.restore(made.checkpoints[0].id)
    assert made.current_checkpoint is made.checkpoints[0]
    await made.run("two")
    assert made.current_checkpoint is made.checkpoints[2]


async def test_reading_4_25_the_users_hook_is_done_before_the_checkpoint_is_taken() -> None:
    async def note(_: int, result: StepResult) -> None:
        counts.append(len(made.checkpoints))
        await asyncio.sleep(0)
        result.state.metadata["noted"] = True

    counts: list[int] = []
    made = session(Talker().agent(strategy=AgentStrategy(on_step_end=note)))
    await made.run("look")
    assert counts == [0, 1]
    assert [item.state.metadata for item in made.checkpoints] == [{"noted": True}] * 2


async def test_reading_4_25_by_turn_there_is_one_checkpoint_after_it() -> None:
    made = session(Talker().agent(), checkpoint_interval="turn")
    await made.run("look")
    assert [texts(item.state.messages) for item in made.checkpoints] == [LOOKED]
    assert len(session(made.agent, checkpoints=False).checkpoints) == 0


async def test_reading_4_26_saves_on_its_own_are_tried_and_those_asked_for_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Full:
        async def save(self, key: str, data: str) -> None:
            keys.append(key)
            raise OSError("full")

        async def load(self, key: str) -> str | None:
            return None

        async def delete(self, key: str) -> None:
            return None

    keys: list[str] = []
    made = session(Talker().agent(), persistence=Full())
    with caplog.at_level(logging.ERROR):
        await made.run("one")
    assert caplog.records
    assert set(keys) == {f"session:{made.id}"}
    with pytest.raises(OSError, match="full"):
        await made.save()


async def test_reading_4_26_what_is_saved_is_the_documents_text() -> None:
    adapter = memory()
    made = session(Talker().agent(), persistence=adapter)
    await made.run("one")
    await made.save()
    text = await adapter.load(f"session:{made.id}")
    assert text is not None
    assert json.loads(text) == made.to_json()


async def test_reading_4_27_a_failed_run_leaves_the_thread_and_its_checkpoints() -> None:
    made = session(Talker().agent())
    with pytest.raises(UPPError, match="broken"):
        await made.run("break")
    assert said(made) == []
    assert [texts(item.state.messages) for item in made.checkpoints] == [["break", "look", "seen w0"]]


async def test_reading_4_27_runs_come_one_after_another() -> None:
    talker = Talker()
    made = session(talker.agent())
    await asyncio.gather(*(made.run(name) for name in "abc"))
    assert said(made) == ["a", "re: a", "b", "re: b", "c", "re: c"]
    assert talker.told == [["a"], ["a", "re: a", "b"], ["a", "re: a", "b", "re: b", "c"]]


async def test_reading_4_28_fork_branches_and_does_not_check_out() -> None:
    made = session(Talker().agent())
    node = made.fork(made.thread_tree.root.id)
    assert made.thread_tree.nodes[node].parent_id == made.thread_tree.root.id == made.thread_tree.current.id


async def test_reading_4_29_every_run_has_a_fresh_state() -> None:
    def note(step: int, result: StepResult) -> None:
        assert "noted" not in result.state.metadata
        result.state.metadata["noted"] = True

    made = session(Talker().agent(strategy=AgentStrategy(on_step_end=note)), metadata={"mine": 1})
    await made.run("one")
    await made.run("two")
    assert [(item.step, texts(item.state.messages)[0]) for item in made.checkpoints] == [(1, "one"), (1, "two")]
    assert made.metadata == {"mine": 1}


def test_reading_4_30_sub_agents_states_are_kept_whoever_their_agents_are() -> None:
    document = cast("dict[str, Any]", example())
    document["checkpoints"][0]["subAgentStates"] = {"call_1": example()}
    made = loaded(document)
    assert made.checkpoints[0].sub_agent_states == {"call_1": example()}
    assert parts(made, "checkpoints")[0]["subAgentStates"] == {"call_1": example()}


async def test_reading_4_31_a_query_in_a_session_is_in_its_document() -> None:
    @tool
    async def research(word: str) -> str:
        """Research."""
        return (await query(Talker().agent(), word)).turn.response.text

    made = session(Talker(tool_name="research").agent(tools=[research]))
    await made.run("look")
    ((thread_id, document),) = parts(made, "metadata", "queries").items()
    thread = Thread.from_json(document)
    assert (thread.id, texts(thread.messages)) == (thread_id, ["w0", "re: w0"])
    assert said(made) == ["look", "research", "re: w0", "re: look"]


async def test_reading_4_32_continuations_share_one_thread() -> None:
    talker = Talker()
    result = await query(talker.agent(), "one")
    await result.continue_("two")
    third = await getattr(result, "continue")("three")
    assert third.thread_id == result.thread_id
    assert talker.told[-1] == ["one", "re: one", "two", "re: two", "three"]


async def test_reading_4_33_ask_appends_the_turn_alone_and_nothing_on_error() -> None:
    thread = Thread()
    turn = await ask(Talker().agent(), "one", thread)
    assert thread.messages == turn.messages
    with pytest.raises(UPPError):
        await ask(Talker().agent(), "break", thread)
    assert thread.messages == turn.messages
    assert texts((await ask(Talker().agent(), "alone")).messages) == ["alone", "re: alone"]


async def test_example_6_2_and_6_3() -> None:
    """The specification's own usage, line by line."""
    talker = Talker()
    sess = session(talker.agent(), checkpoints=True, checkpoint_interval="step")
    await sess.run("look for a hello world program")
    await sess.run("Add error handling")
    assert len(sess.checkpoints) == 3
    await sess.restore(sess.checkpoints[0].id)
    await sess.run("Add logging instead")
    assert len(sess.thread_tree.nodes) == 2
    assert "Add error handling" not in said(sess)
    saved = json.dumps(sess.to_json())
    restored = Session.from_json(saved, talker.agent())
    turn = await restored.run("Continue from before")
    assert turn.response.text == "re: Continue from before"
    assert talker.told[-1][-3:] == ["Add logging instead", "re: Add logging instead", "Continue from before"]


async def test_example_7_2() -> None:
    """The specification's own usage of a tree without a session."""
    talker, tree = Talker(), ThreadTree()
    coder = talker.agent()
    tree.current.thread.append(await coder.run(tree.history(), "Create a web server"))
    tree.checkout(tree.branch(tree.current.id, "alternative-framework"))
    tree.current.thread.append(await coder.run(tree.history(), "Use Express instead"))
    tree.checkout(tree.root.id)
    tree.current.thread.append(await coder.run(tree.history(), "Add middleware"))
    assert talker.told == [
        ["Create a web server"],
        ["Create a web server", "re: Create a web server", "Use Express instead"],
        ["Create a web server", "re: Create a web server", "Add middleware"],
    ]
