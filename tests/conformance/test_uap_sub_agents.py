"""Readings of what UAP says of sub-agents: what they inherit, how they are tools, and how deep they may be nested; in process."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import agent, session
from perdure.errors import InvalidInput
from perdure.uap.agent_tool import AgentTool
from perdure.uap.app import App
from perdure.uap.ids import is_uuid4
from perdure.uap.lineage import current
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import ToolResultMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from tests.conformance.uap_agent_stage import (
    SHAPE,
    VENDOR_A,
    VENDOR_B,
    Recorded,
    Seeing,
    delegating,
    helper,
    look,
    nested,
    results,
)

# 4.34: inheritance


async def test_reading_4_34_a_model_is_inherited_when_the_run_begins_over_any_number_of_levels() -> None:
    seen: list[Any] = []

    def note() -> None:
        run = current()
        assert run is not None
        seen.append((run.agent.name, run.agent.model, run.agent.params, run.agent.reach))

    def script(request: LLMRequest) -> ScriptedAnswer:
        note()
        last = request.messages[-1]
        offered = request.tools[0].name if request.tools else None
        return call(offered, task="t") if offered and not isinstance(last, ToolResultMessage) else "ok"

    model = scripted(script)
    low = agent(name="low", params={"own": 1}, config=VENDOR_B)
    mid = agent(name="mid", tools=[low])
    top = agent(name="top", model=model, tools=[mid], params={"t": 1}, config=VENDOR_A)
    await top.run("go")
    joined = VENDOR_B.over(VENDOR_A)
    assert seen[:3] == [
        ("top", model, {"t": 1}, VENDOR_A),
        ("mid", model, {"t": 1}, VENDOR_A),
        ("low", model, {"own": 1}, joined),
    ]
    assert joined.headers == {"x": "b", "y": "a"}
    assert low.model is mid.model is None, "the definitions stay what they are"


async def test_reading_4_34_without_a_model_anywhere_the_run_fails_and_says_so() -> None:
    made = agent(name="lonely")
    with pytest.raises(UPPError, match="'lonely' has no model, and no parent agent") as raised:
        await made.run("go")
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(UPPError, match="has no model"):
        await made.stream("go")


# 4.35 to 4.37: the tool


def test_reading_4_35_the_tools_name_is_the_agents_or_made_of_its_id() -> None:
    nameless = agent(model=scripted([]))
    assert agent(name="a.b-c", model=scripted([])).to_tool().name == "a_b-c"
    assert nameless.to_tool().name == f"agent_{nameless.id}"
    assert nameless.to_tool(name="explorer").name == "explorer"


def test_reading_4_35_two_tools_of_one_name_are_refused_at_definition() -> None:
    with pytest.raises(InvalidInput, match="'helper' and 'helper' cannot be told apart"):
        agent(model=scripted([]), tools=[helper(), helper().to_tool()])


@pytest.mark.parametrize(
    ("own", "system", "description"),
    [
        ("Helps.", "You.", "Helps."),
        (None, "You  explore\ncode. You never write.", "You explore code."),
        (None, "Version 1.2 of it! Yes.", "Version 1.2 of it!"),
        (None, "x" * 300, "x" * 199 + "…"),
        (None, None, "Delegates a task to a sub-agent"),
    ],
    ids=["own", "sentence", "dots inside", "cut", "nothing"],
)
def test_reading_4_36_the_description_comes_from_the_agent(
    own: str | None, system: str | None, description: str
) -> None:
    made = helper(description=own, system=system)
    assert made.to_tool().description == description
    assert made.to_tool(description="given").description == "given"


@pytest.mark.parametrize(
    ("schema", "arguments", "told"),
    [
        (None, {"task": "find it"}, "find it"),
        ({"type": "object", "properties": {"city": {"type": "string"}}}, {"city": "Paris"}, '{"city":"Paris"}'),
        (None, {"task": {"deep": 1}}, '{"deep":1}'),
    ],
    ids=["task", "other arguments", "task that is no text"],
)
async def test_reading_4_36_the_task_is_what_the_model_gave(
    schema: JSONObject | None, arguments: JSONObject, told: str
) -> None:
    recorded = Recorded(["ok"])
    child = agent(model=recorded.model, name="c").to_tool(parameter_schema=schema)
    await agent(model=scripted([call("c", **arguments), "end"]), tools=[child]).run("go")
    assert recorded.requests[0].messages[-1].text == told


async def test_reading_4_36_a_call_without_a_task_is_an_error_for_the_model() -> None:
    turn = await agent(model=scripted([call("helper"), "end"]), tools=[helper()]).run("go")
    assert turn.tool_executions[0].is_error
    assert "needs a 'task'" in str(turn.tool_executions[0].result)


async def test_reading_4_36_the_result_is_the_text_or_the_data_of_a_structure() -> None:
    plain, shaped = helper("words"), helper('{"n": 7}', name="shaped", structure=SHAPE)
    turn = await delegating(plain, shaped).run("go")
    assert results(turn.messages) == ["words", {"n": 7}]
    assert turn.response.text == "done"


def test_reading_4_37_agents_become_tools_and_the_definition_keeps_them() -> None:
    child = helper()
    made = agent(model=scripted([]), name="parent", tools=[look, child])
    first, second = made.resolved
    assert first is look
    assert isinstance(second, AgentTool)
    assert (second.agent, made.tool("helper")) == (child, second)
    assert [item.agent for item in made.spec().tools] == ["", "parent/helper"]
    assert made.spec(path="x/parent").name == "x/parent"
    assert made.spec(path="x/parent").tools[1].agent == "x/parent/helper"


def test_app_finds_sub_agents_by_path_with_what_they_inherit() -> None:
    model = scripted([])
    low = agent(name="low")
    mid = agent(name="mid.dle", tools=[low.to_tool(name="deep")])
    app = App([agent(name="top", model=model, tools=[mid])])
    assert app.agent("top/mid_dle/deep").model is model
    assert app.agent("top/mid_dle/deep").id == low.id
    assert app.serves("top/mid_dle")
    assert not app.serves("top/deep")
    assert [item.name for item in app] == ["top"]


# 4.38: depth


@pytest.mark.parametrize(("limit", "refused"), [(3, False), (2, True), (0, True)])
async def test_reading_4_38_over_the_limit_the_parents_model_gets_an_error(limit: int, refused: bool) -> None:
    chat = session(nested(3, max_depth=limit))
    turn = await chat.run("go")
    assert turn.response.text == "end"
    assert ("nested" in str(chat.to_json())) == refused
    assert (f"the limit is {limit}" in str(chat.to_json())) == refused


async def test_reading_4_38_a_tool_that_runs_its_own_agent_is_bounded() -> None:
    depths: list[int] = []

    @tool
    async def again(word: str) -> str:
        """Run the same agent."""
        run = current()
        assert run is not None
        depths.append(len(run.path))
        return (await made.run(word)).response.text

    made = agent(model=scripted([call("again", word="w"), "end"]), name="self", tools=[again], max_depth=3)
    await made.run("go")
    assert depths == [1, 2, 3, 4]


@pytest.mark.parametrize("limit", [-1, True, 1.5, None])
def test_a_depth_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="max_depth"):
        agent(model=scripted([]), max_depth=limit)


# 4.39: ids of parent and child


async def test_reading_4_39_context_and_events_name_the_parent() -> None:
    above, below = Seeing(), Seeing()
    child = helper(middleware=[below])
    parent = delegating(child, name="parent", middleware=[above])
    await parent.run("go")
    told = above.contexts[0].metadata["uap"]
    assert told == {"agentId": parent.id, "turnId": told["turnId"]}
    inner = below.contexts[0].metadata["uap"]
    assert inner == {
        "agentId": child.id,
        "turnId": inner["turnId"],
        "parentAgentId": parent.id,
        "parentTurnId": told["turnId"],
    }
    assert is_uuid4(inner["turnId"])
    assert {str(event.data["turnId"]) for event in below.events} == {inner["turnId"]}
    assert {str(event.data["parentTurnId"]) for event in below.events} == {told["turnId"]}
    assert all("parentTurnId" not in event.data for event in above.events if event.agent_id == parent.id)
