"""`delegate`: one tool for several agents, and how they are named."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import App, agent, delegate
from perdure.errors import InvalidInput
from perdure.uap.agent_tool import AgentTool
from perdure.uap.cut import cut_answer
from perdure.uap.delegated import delegated_agent
from perdure.upp.messages import AssistantMessage
from perdure.upp.providers.script import Answer, call
from perdure.upp.providers.scripted import scripted
from perdure.upp.tool_call import ToolCall


def helper(name: str | None = "researcher", **options: Any) -> Any:
    return agent(name=name, model=scripted(["found"]), system="Look things up. Always.", **options)


def lead(*tools: Any, script: Any = ("done",)) -> Any:
    return agent(name="lead", model=scripted(list(script)), tools=tools)


def test_the_model_sees_one_tool_with_the_names_of_the_agents() -> None:
    made = delegate(helper(), helper("a.painter", description="Paints."))
    assert made.name == "delegate"
    assert made.description.splitlines()[-2:] == ["researcher: Look things up.", "a_painter: Paints."]
    properties: Any = made.parameters["properties"]
    assert properties["agent"]["enum"] == ["researcher", "a_painter"]
    assert made.parameters["required"] == ["agent", "task"]
    assert delegate(helper(), name="ask", description="Ask.").description.startswith("Ask.\n")


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ([], "at least one agent"),
        ([helper(None)], "needs a name"),
        ([helper("a.b"), helper("a_b")], "two agents are named 'a_b'"),
    ],
)
def test_agents_that_could_not_be_told_apart(agents: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        delegate(*agents)


def test_each_agent_is_a_sub_agent_with_a_path_of_its_own() -> None:
    chief = lead(delegate(helper(), helper("painter")), helper("painter"))
    app = App(agents=[chief])
    names = [tool.name for tool in chief.spec().tools]
    assert names == ["delegate", "delegate:researcher", "delegate:painter", "painter"]
    assert [tool.agent for tool in chief.spec().tools] == [
        "", "lead/delegate:researcher", "lead/delegate:painter", "lead/painter",
    ]  # fmt: skip
    assert app.agent("lead/delegate:researcher").name == "researcher"
    assert isinstance(chief.tool("delegate:painter"), AgentTool)
    assert [tool.name for tool in chief.resolved] == ["delegate", "painter"]


def test_an_agent_without_a_model_has_its_parents() -> None:
    heir = agent(name="heir", system="Inherit.")
    app = App(agents=[lead(delegate(heir))])
    assert app.agent("lead/delegate:heir").model is not None


def test_the_workflow_knows_the_agent_of_a_long_call() -> None:
    """It holds a preview of the arguments, and the name."""
    long = ToolCall("c", "delegate", {"task": "x" * 5000, "agent": "researcher"})
    odd = [ToolCall("c", "t", {"agent": 7, "x": "x" * 5000}), ToolCall("c", "t", {"agent": "a" * 5000})]
    cut, *others = cut_answer(AssistantMessage("", [long, *odd])).tool_calls or []
    assert delegated_agent(cut) == "delegate:researcher"
    assert isinstance(cut.arguments, dict)
    assert set(cut.arguments) == {"preview", "agent"}
    assert [delegated_agent(other) for other in others] == [None, None]
    assert delegated_agent(ToolCall("c", "delegate", "no object")) is None


async def test_its_answer_is_the_result() -> None:
    script = [Answer("", [call("delegate", agent="researcher", task="look")]), "done"]
    turn = await lead(delegate(helper()), script=script).run("go")
    assert [(item.result, item.is_error) for item in turn.tool_executions] == [("found", False)]
    assert turn.response.text == "done"


async def test_an_agent_that_does_not_exist_is_an_error_for_the_model() -> None:
    script = [Answer("", [call("delegate", agent="nobody", task="look")]), "done"]
    turn = await lead(delegate(helper()), script=script).run("go")
    assert turn.tool_executions[0].is_error
    assert "knows no agent 'nobody'; it has researcher" in str(turn.tool_executions[0].result)
