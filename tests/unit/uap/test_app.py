"""The agents that a worker serves."""

from __future__ import annotations

import pytest

from perdure.errors import InvalidInput, UnknownAgent
from perdure.uap.agent import agent
from perdure.uap.app import App
from perdure.uap.middleware import Middleware
from perdure.upp.providers.scripted import scripted

MODEL = scripted(["hello"])


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


def test_an_agent_with_middleware_is_not_served() -> None:
    """A durable run would pass over it without a word."""
    guarded = agent(name="guarded", model=MODEL, middleware=[Middleware()])
    with pytest.raises(InvalidInput, match="'guarded' has middleware, which surrounds runs in process only"):
        App([guarded])
