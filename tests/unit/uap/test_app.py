"""The agents that a worker serves."""

from __future__ import annotations

from typing import cast

import pytest

from perdure.errors import InvalidInput, UnknownAgent
from perdure.uaip import Workflow, stage, task, workflow
from perdure.uaip.bound_task import AgentTask
from perdure.uap.agent import Agent, agent
from perdure.uap.app import App
from perdure.uap.middleware import Middleware
from perdure.upp.providers.scripted import scripted

MODEL = scripted(["hello"])


def crew(one: Agent, other: Agent) -> Workflow:
    """A workflow whose tasks are runs of two agents."""

    @stage
    class Office:
        @task(agent=one)
        def first(self, task: str) -> str:
            """Ask the one."""
            raise AssertionError("never called")

        @task(agent=other)
        def second(self, task: str) -> str:
            """Ask the other."""
            raise AssertionError("never called")

    @workflow
    class Crew:
        office = Office

    return Crew


def test_agents_are_found_by_name_in_the_order_given() -> None:
    """An app is a list with names."""
    made = [agent(name=name, model=MODEL) for name in ("b", "a")]
    app = App(agents=made)
    assert list(app) == made
    assert len(app) == 2
    assert app.agent("a") is made[1]


def test_an_agent_without_a_name_is_refused() -> None:
    """No session could name it."""
    with pytest.raises(InvalidInput, match="needs a name"):
        App(agents=[agent(model=MODEL)])


def test_two_agents_of_one_name_are_refused() -> None:
    """One of them would never be reached."""
    with pytest.raises(InvalidInput, match="two agents are named 'a'"):
        App(agents=[agent(name="a", model=MODEL), agent(name="a", model=MODEL)])


@pytest.mark.parametrize(("names", "shown"), [(["a", "b"], "a, b"), ([], "none")])
def test_an_unknown_agent_is_refused_with_those_there_are(names: list[str], shown: str) -> None:
    """The caller sees what may have been meant."""
    app = App(agents=[agent(name=name, model=MODEL) for name in names])
    with pytest.raises(UnknownAgent, match=f"no agent is named 'c'; this app has {shown}"):
        app.agent("c")


def test_an_agent_with_middleware_is_served() -> None:
    """Its runs are surrounded as in process."""
    guarded = agent(name="guarded", model=MODEL, middleware=[Middleware()])
    assert App([guarded]).agent("guarded").middleware == guarded.middleware


def test_a_sub_agent_is_found_by_the_names_that_lead_to_it() -> None:
    """With what it inherits on the way; the app's list has the agents alone."""
    low = agent(name="low.er")
    top = agent(name="top", model=MODEL, tools=[agent(name="mid", tools=[low])], params={"t": 1})
    app = App([top, agent(name="other", model=MODEL)])
    found = app.agent("top/mid/low_er")
    assert (found.id, found.model, found.params) == (low.id, MODEL, {"t": 1})
    assert [app.serves(path) for path in ("top/mid", "top/low_er", "mid", "top/", "/top")] == [True, *[False] * 4]
    assert [item.name for item in app] == ["top", "other"]
    with pytest.raises(UnknownAgent, match="this app has top, other"):
        app.agent("top/low_er")


def test_sub_agents_below_the_depth_limit_are_not_served() -> None:
    """A run could not reach them either."""
    top = agent(name="top", model=MODEL, max_depth=1, tools=[agent(name="mid", tools=[agent(name="low")])])
    app = App([top])
    assert (app.serves("top/mid"), app.serves("top/mid/low")) == (True, False)


@pytest.mark.parametrize("level", [1, 2])
def test_a_sub_agent_without_a_name_that_stays_is_refused(level: int) -> None:
    """Its tool would have another name after a restart; one that the tool is given stays."""
    nameless = agent()
    named = agent(name="mid", tools=[nameless])
    with pytest.raises(InvalidInput, match=r"has no name, so after a restart .* to_tool\(name=\.\.\.\)"):
        App([agent(name="top", model=MODEL, tools=[nameless if level == 1 else named])])
    assert App([agent(name="top", model=MODEL, tools=[nameless.to_tool(name="x")])]).serves("top/x")


def test_the_agents_that_are_tasks_of_a_workflow_are_served() -> None:
    """By their names; one that is also given for itself is served once."""
    coder, tester = (agent(name=name, model=MODEL) for name in ("coder", "tester"))
    app = App([coder], workflows=[crew(coder, tester)])
    assert [item.name for item in app] == ["coder", "tester"]
    assert [item.name for item in app.workflows] == ["crew"]
    assert isinstance(app.task("crew", "office", "first"), AgentTask)
    assert [app.task(*names) for names in (("x", "office", "first"), ("crew", "x", "first"), ("crew", "office", "x"))] == [
        None, None, None,
    ]  # fmt: skip


def test_an_app_may_have_workflows_only() -> None:
    served = crew(agent(name="a", model=MODEL), agent(name="b", model=MODEL))
    assert len(App(workflows=[served]).workflows) == 1
    with pytest.raises(InvalidInput, match="two workflows are named 'crew'"):
        App(workflows=[served, crew(agent(name="c", model=MODEL), agent(name="d", model=MODEL))])


def test_an_agent_of_a_task_needs_a_name_of_its_own() -> None:
    """Its sessions could not be found again, or would be another one's."""
    named = agent(name="a", model=MODEL)
    with pytest.raises(InvalidInput, match="needs a name"):
        App(workflows=[crew(named, agent(model=MODEL))])
    with pytest.raises(InvalidInput, match="two agents are named 'a'"):
        App([agent(name="a", model=MODEL)], workflows=[crew(named, named)])


def test_a_class_without_its_decorator_is_no_workflow() -> None:
    class Bare:
        pass

    with pytest.raises(InvalidInput, match="put @workflow above its class"):
        App(workflows=cast("list[Workflow]", [Bare]))
