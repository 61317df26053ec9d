"""Defining agents, and the two forms of `run`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap import host
from perdure.uap.agent import Agent, agent
from perdure.uap.agent_stream import AgentStreamResult, UAPEvent, UAPEventType
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.options import RunOptions
from perdure.uap.spec import Limits, StrategySpec, ToolSpec
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.providers.scripted import scripted
from perdure.upp.thread import Thread
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage
from perdure.workflows.strategies.loop import loop

MODEL = scripted(["hello"])


@tool(effect="once", timeout=timedelta(seconds=30), sequential=True)
def open_ticket(title: str) -> str:
    """Open a ticket."""
    return title


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


class Listening:
    """A host that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[Message], Message, RunOptions]] = []

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        self.asked.append((list(history), message, options))
        return Turn([message, AssistantMessage("heard")], [], empty_usage(), 1)

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        raise AssertionError("nobody here streams")


def test_the_id_comes_from_the_name() -> None:
    """A session that is restored in another process finds its agent again."""
    assert agent(name="coder", model=MODEL).id == agent(name="coder", model=MODEL).id == derive_id("agent", "coder")
    assert agent(name="other", model=MODEL).id != derive_id("agent", "coder")


def test_an_agent_without_a_name_draws_its_id() -> None:
    """It runs in process only, so nobody looks for it."""
    drawn = agent(model=MODEL)
    assert drawn.name is None
    assert is_uuid4(drawn.id)
    assert drawn.id != agent(model=MODEL).id


def test_a_given_id_is_kept() -> None:
    """An agent that came from elsewhere keeps its own."""
    given = "11111111-1111-4111-8111-111111111111"
    assert agent(name="coder", id=given, model=MODEL).id == given


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "a" * 65, "a\n", "é", "a/b", "a\x00", "\ud800"])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    """It is part of ids, commands and addresses."""
    with pytest.raises(InvalidInput, match="agent name"):
        agent(name=name, model=MODEL)


@pytest.mark.parametrize("name", ["a", "7", "a.b-c_D", "a" * 64])
def test_a_plain_name_is_taken(name: str) -> None:
    """Letters, digits, dots, dashes and underscores."""
    assert agent(name=name, model=MODEL).name == name


def test_an_id_that_is_no_uuid4_is_refused() -> None:
    """Source: UAP-1.0 section 4.1."""
    with pytest.raises(InvalidInput, match="not a UUIDv4"):
        agent(id="coder", model=MODEL)


@pytest.mark.parametrize("model", ["claude", object()])
def test_a_model_that_is_none_is_refused(model: object) -> None:
    """The message says what a model looks like."""
    with pytest.raises(InvalidInput, match="must come from a provider"):
        agent(model=cast(Any, model))


@pytest.mark.parametrize("item", [print, "look_up", None])
def test_a_tool_that_is_none_is_refused(item: object) -> None:
    """A bare function has no schema and no effect class."""
    with pytest.raises(InvalidInput, match="make one from a typed function with @tool"):
        agent(model=MODEL, tools=[cast(Any, item)])


def test_tools_that_cannot_be_told_apart_are_refused() -> None:
    """Vendors rewrite dashes and fold case, so such names would meet."""

    @tool(name="Look-Up")
    def other(word: str) -> str:
        return word

    with pytest.raises(InvalidInput, match="'look_up' and 'Look-Up'"):
        agent(model=MODEL, tools=[look_up, other])


def test_the_spec_says_what_a_run_must_know() -> None:
    """Plain data: the functions stay in the worker."""
    made = agent(name="coder", model=MODEL, tools=[open_ticket, look_up], execution=loop(max_iterations=3))
    spec = made.spec(Limits(continue_as_new_events=500))
    assert spec.strategy == StrategySpec("loop", {"max_iterations": 3})
    assert spec.tools == [
        ToolSpec("open_ticket", effect="once", timeout_s=30.0, sequential=True),
        ToolSpec("look_up", effect="at_most_once", timeout_s=None, sequential=False),
    ]
    assert spec.limits.continue_as_new_events == 500
    assert (spec.name, spec.id) == ("coder", made.id)


def test_tools_are_found_by_name() -> None:
    """The model may call what does not exist."""
    made = agent(name="coder", model=MODEL, tools=[look_up])
    assert made.tool("look_up") is look_up
    assert made.tool("Look_Up") is None
    assert made.spec().tool("look_up") == ToolSpec("look_up")
    assert made.spec().tool("none such") is None


def test_an_agent_is_not_changed_through_what_it_was_made_of() -> None:
    """Lists and mappings are copied."""
    tools: list[Tool] = [look_up]
    params = {"temperature": 0.5}
    made = agent(name="coder", model=MODEL, tools=tools, params=params)
    tools.append(open_ticket)
    params["temperature"] = 1.0
    assert made.tools == (look_up,)
    assert made.params == {"temperature": 0.5}


HISTORY = [UserMessage("one"), AssistantMessage("two")]
QUESTION = UserMessage("three")


async def test_run_takes_an_input() -> None:
    """Text stands for a user's message."""
    listening = Listening()
    with host.connected(listening):
        turn = await agent(model=MODEL).run("hello")
        await agent(model=MODEL).run(QUESTION, options=RunOptions(max_steps=2))
    assert turn.response.text == "heard"
    (history, message, options), (_, second, limited) = listening.asked
    assert (history, message.text, message.type, options) == ([], "hello", "user", RunOptions())
    assert (second, limited) == (QUESTION, RunOptions(max_steps=2))


@pytest.mark.parametrize(
    "history",
    [HISTORY, tuple(HISTORY), Thread(HISTORY), [], Thread()],
    ids=["list", "tuple", "thread", "empty", "empty thread"],
)
async def test_run_takes_a_history_and_an_input(history: list[Message] | Thread) -> None:
    """A list or a thread comes first, and stays as it is."""
    listening = Listening()
    before = len(history)
    with host.connected(listening):
        await agent(model=MODEL).run(history, "three")
    ((seen, message, _),) = listening.asked
    assert seen == HISTORY[:before]
    assert message.text == "three"
    assert len(history) == before


BAD_CALLS: list[tuple[tuple[Any, ...], str]] = [
    ((HISTORY,), "lacks the input"),
    ((Thread(),), "lacks the input"),
    (("one", "two"), "takes a list of messages or a Thread first"),
    ((QUESTION, "two"), "takes a list of messages or a Thread first"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD_CALLS, ids=[text for _, text in BAD_CALLS])
async def test_other_arguments_are_refused(arguments: tuple[Any, ...], text: str) -> None:
    """The message says how it is called."""
    with host.connected(Listening()), pytest.raises(InvalidInput, match=text):
        await agent(model=MODEL).run(*arguments)


class Ears(Middleware):
    name = "ears"
    listens = frozenset({UAPEventType.STEP_END, UAPEventType.ACTION})

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        pass


class Nosy(Middleware):
    name = "nosy"

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        pass


@pytest.mark.parametrize(
    ("middleware", "listens"),
    [([Middleware()], []), ([Middleware(), Ears()], ["step_end", "action"]), ([Nosy()], list(UAPEventType))],
    ids=["nobody", "some", "all"],
)
def test_the_spec_says_which_events_middleware_is_told(middleware: list[Middleware], listens: list[str]) -> None:
    """A durable run makes a call for each of them, and for no other."""
    spec = agent(name="a", model=MODEL, middleware=middleware).spec()
    assert spec.listens == listens
    assert spec.middleware == [item.name for item in middleware]


def test_the_spec_of_a_sub_agent_has_its_path() -> None:
    """So have the tools that are sub-agents of its own."""
    child = agent(name="mid", model=MODEL, tools=[look_up, agent(name="low")])
    assert [item.agent for item in child.spec(path="top/mid").tools] == ["", "top/mid/low"]
    assert child.spec(path="top/mid").name == "top/mid"
    assert child.spec().tools[1] == ToolSpec("low", effect="idempotent", agent="mid/low")


def test_a_copy_takes_no_configuration_to_another_vendor() -> None:
    """The key in it is not that vendor's."""
    secret = ProviderConfig(api_key="secret")
    made = agent(model=MODEL, config=secret)
    assert made.copy(model=scripted([], name="other")).config == secret
    assert made.copy(model=anthropic("claude-sonnet-4-20250514")).config is None
    assert made.copy(model=anthropic("claude-sonnet-4-20250514"), config=secret).config == secret
