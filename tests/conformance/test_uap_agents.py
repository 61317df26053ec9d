"""Facts that UAP's own tests assert of agents, and readings of what it says of their definition; in process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure import agent
from perdure.errors import InvalidInput
from perdure.execution import loop, plan, react
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.options import RunOptions
from perdure.upp.errors import UPPError
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.tool_use import BeforeCallResult, ToolUseStrategy
from tests.conformance.uap_agent_stage import SHAPE, VENDOR_A, Recorded, Seeing, helper, look, results

# Facts 1 to 12


def test_fact_1_an_id_is_a_uuid4_and_each_agent_has_its_own() -> None:
    first, second = agent(model=scripted([])), agent(model=scripted([]))
    assert is_uuid4(first.id)
    assert first.id != second.id


def test_fact_2_an_agent_has_the_very_objects_that_it_was_given() -> None:
    model, child = scripted([]), helper()
    made = agent(model=model, tools=[look, child], system="s")
    assert made.model is model
    assert made.tools == (look, child)
    assert made.tools[0] is look
    assert made.tools[1] is child
    assert made.system == "s"
    assert agent(model=model).tools == ()


async def test_fact_3_text_becomes_a_users_message_and_a_message_is_passed_on() -> None:
    seeing, message = Seeing(), UserMessage("two")
    made = helper(middleware=[seeing])
    await made.run("one")
    await made.run(message)
    first, second = (context.input for context in seeing.contexts)
    assert (first.type, first.text) == ("user", "one")
    assert second is message


async def test_fact_5_the_callers_history_comes_first_and_stays_what_it_is() -> None:
    recorded, history = Recorded(["", "b"]), [UserMessage("a"), AssistantMessage("b")]
    await agent(model=recorded.model).run(history, "c")
    assert [message.text for message in recorded.requests[0].messages] == ["a", "b", "c"]
    assert len(history) == 2


# Structured output: 4.6 and 4.18


@pytest.mark.parametrize(
    ("execution", "script", "structured"),
    [
        (loop(), [call("look", word="w"), '{"n": 1}'], [True, True]),
        (react(), ["hm", call("look", word="w"), "hm", '{"n": 1}'], [False, True, False, True]),
        (plan(), ['{"steps": []}', '{"n": 1}'], [False, True]),
    ],
    ids=["loop", "react", "plan"],
)
async def test_reading_4_18_the_structure_is_asked_for_where_the_strategy_has_none(
    execution: Any, script: Sequence[ScriptedAnswer], structured: list[bool]
) -> None:
    recorded = Recorded(script)
    made = agent(model=recorded.model, tools=[look], structure=SHAPE, execution=execution)
    turn = await made.run("go")
    assert [request.structure == SHAPE for request in recorded.requests] == structured
    assert turn.data == {"n": 1}


async def test_a_form_that_a_run_asks_for_takes_the_structures_place() -> None:
    recorded = Recorded(["free"])
    made = agent(model=recorded.model, structure=SHAPE)
    turn = await made.run("go", options=RunOptions(response_format={"type": "text"}))
    assert (recorded.requests[0].structure, turn.data) == (None, None)


@pytest.mark.parametrize("structure", [{"type": 1}, "text", {"x": object()}], ids=["no schema", "text", "no JSON"])
def test_a_structure_that_is_no_schema_is_refused(structure: Any) -> None:
    with pytest.raises(InvalidInput, match="structure"):
        agent(model=scripted([]), structure=structure)


# 4.40 to 4.43


def test_reading_4_40_a_copy_has_all_options_and_an_id_of_its_own() -> None:
    first = agent(model=scripted([]), params={"p": 1}, config=VENDOR_A, tools=[look], structure=SHAPE, max_depth=2)
    second = first.copy(system="other", execution=react())
    assert second.id != first.id
    assert (second.params, second.config, second.tools, second.structure, second.max_depth) == (
        first.params,
        first.config,
        first.tools,
        first.structure,
        2,
    )
    assert (second.system, second.execution.name, first.system) == ("other", "react", None)


def test_reading_4_40_a_name_stands_for_one_id() -> None:
    first = agent(model=scripted([]), name="coder")
    assert first.copy(system="x").id == first.id == derive_id("agent", "coder")
    assert first.copy(name="other").id == derive_id("agent", "other")
    given = "11111111-1111-4111-8111-111111111111"
    assert first.copy(id=given).id == given


async def test_reading_4_42_tool_hooks_run_in_process() -> None:
    hooks = ToolUseStrategy(on_before_call=lambda _, params: BeforeCallResult(True, {**params, "word": "other"}))
    turn = await agent(model=scripted([call("look", word="w"), "end"]), tools=[look], tool_strategy=hooks).run("go")
    assert results(turn.messages) == ["seen other"]


@pytest.mark.parametrize(("execution", "limit"), [(None, 2), (loop(max_iterations=3), 3)], ids=["default", "loop"])
async def test_reading_4_42_the_loops_limit_counts_and_is_told(execution: Any, limit: int) -> None:
    met: list[int] = []
    hooks = ToolUseStrategy(max_iterations=2, on_max_iterations=met.append)
    endless = scripted(lambda _: call("look", word="w"))
    with pytest.raises(UPPError, match=rf"maximum iterations \({limit}\)"):
        await agent(model=endless, tools=[look], tool_strategy=hooks, execution=execution).run("go")
    assert met == [limit]
