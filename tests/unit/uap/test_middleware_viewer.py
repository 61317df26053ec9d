"""What middleware is told of a run: what a stream's reader is told of what the agent does, and before it."""

from __future__ import annotations

import pytest

from perdure.errors import LimitExceeded
from perdure.middleware import budget
from perdure.uap.agent import agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEvent
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.middleware_viewer import MiddlewareViewer
from perdure.uap.spent import Spent
from perdure.uap.viewer import NoViewer, StreamViewer, Viewer
from perdure.upp.event_flow import Flow
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.tool_call import ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, empty_usage

AGENT = agent(model=scripted(["hi there"]), name="a")


class Listener(Middleware):
    def __init__(self) -> None:
        self.heard: list[UAPEvent] = []

    async def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        self.heard.append(event)


def context() -> MiddlewareContext:
    return MiddlewareContext(agent=AGENT, input=UserMessage("go"))


async def one_step(viewer: Viewer) -> None:
    look = call("look", word="w")
    await viewer.begun(1)
    await viewer.reasoned(1, "hm")
    await viewer.ask(AGENT.bind(), LLMRequest(messages=[UserMessage("go")]))
    await viewer.acted(1, AssistantMessage("", [look]))
    viewer.executed(0, ToolExecution("look", look.tool_call_id, {}, "seen", False, 1))
    await viewer.observed(1, [ToolResult(look.tool_call_id, "seen")])
    await viewer.ended(1, TokenUsage(3, 4, 7))


async def test_middleware_and_reader_are_told_the_same() -> None:
    """Of the agent; of the model only the reader is told."""
    listener = Listener()

    async def work(flow: Flow[AgentStreamEvent]) -> Turn:
        await one_step(MiddlewareViewer(StreamViewer(flow, "run", AGENT.id), [listener], context(), "run"))
        return Turn([AssistantMessage("hi")], [], empty_usage(), 1)

    read = [event async for event in AgentStreamResult(work)]
    assert listener.heard == [event.uap for event in read if event.uap is not None]
    assert len(listener.heard) == 5
    assert any(event.upp is not None for event in read)


async def test_without_a_reader_middleware_is_told_all_the_same() -> None:
    listener, seen = Listener(), context()
    viewer = MiddlewareViewer(NoViewer(), [listener], seen, "run")
    await one_step(viewer)
    assert [str(event.type) for event in listener.heard] == [
        *("step_start", "reasoning", "action", "observation", "step_end")
    ]
    assert (seen.spent.tokens, seen.spent.steps, viewer.text) == (7, 1, "")


async def test_a_step_that_may_not_begin_is_not_shown() -> None:
    flow: Flow[AgentStreamEvent] = Flow()
    flow.drain()
    spent = MiddlewareContext(agent=AGENT, input=UserMessage("go"), spent=Spent(steps=1))
    viewer = MiddlewareViewer(StreamViewer(flow, "run", AGENT.id), [budget(max_steps=1)], spent, "run")
    with pytest.raises(LimitExceeded):
        await viewer.begun(2)
    flow.close()
    assert await flow.next() is None
