"""Strategies of a user's own, and agents that have them. What their models, tools and hooks did is in the ledger.

Input: {"name": the test's own, ...}, or any text for those that write nothing.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

from perdure import App, agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEvent, UAPEventType
from perdure.uap.execution import ExecutionContext
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.state import ExecutionState
from perdure.upp import LLMRequest, ToolCall, Turn, UserMessage, tool
from perdure.upp.event_flow import Flow
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger

LONG = "the whole of it " * 200


def name_of(text: str) -> str:
    """The test's own name, out of an input."""
    return str(json.loads(text)["name"])


def _log(kind: str, request: LLMRequest, **data: Any) -> None:
    for message in request.messages:
        if message.type == "user" and message.text.startswith("{"):
            write_ledger(kind, name_of(message.text), said=[item.text for item in request.messages], **data)
            return


class Custom:
    """The specification's own example. Source: UAP-1.0 section 5.5."""

    name = "custom"

    async def execute(self, context: ExecutionContext) -> Turn:
        llm, given, history = context.llm, context.input, context.history
        strategy, state = context.strategy, context.state

        strategy.on_step_start(1, state)

        turn = await llm.generate(history, given)
        state.messages.extend(turn.messages)

        strategy.on_step_end(1, StepResult(turn, state))

        return turn

    def stream(self, context: ExecutionContext) -> AgentStreamResult:
        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            begin = UAPEvent(UAPEventType.STEP_START, 1, context.agent.id, {"mine": "begins"})
            await flow.send([AgentStreamEvent(uap=begin)])
            stream = context.llm.stream(context.history, context.input)
            async for event in stream:
                await flow.send([AgentStreamEvent(upp=event)])
            return await stream.turn

        return AgentStreamResult(work, [context.input])


class Quiet(Custom):
    """Two events of its own, though it asks its model twice."""

    name = "quiet"

    def stream(self, context: ExecutionContext) -> AgentStreamResult:
        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            for number in (1, 2):
                event = UAPEvent(UAPEventType.REASONING, number, context.agent.id, {"text": f"thought {number}"})
                await flow.send([AgentStreamEvent(uap=event)])
            await context.llm.generate(context.history, context.input)
            return await context.llm.generate(context.history, context.input)

        return AgentStreamResult(work, [context.input])


class Debate(Custom):
    """Two voices at once, then a judge who hears them; only the input and the judge's word are the turn."""

    name = "debate"

    def __init__(self, rounds: int) -> None:
        self.options = {"rounds": rounds}

    async def execute(self, context: ExecutionContext) -> Turn:
        llm, strategy, state = context.llm, context.strategy, context.state
        voices: list[str] = []
        both: list[Turn] = []
        for number in range(1, self.options["rounds"] + 1):
            await strategy.on_step_start(number, state)
            both = await asyncio.gather(
                *(
                    llm.generate([*context.history, context.input], f"argue {side} {number}")
                    for side in ("for", "against")
                )
            )
            voices.extend(turn.response.text for turn in both)
            state.metadata["said"] = list(voices)
            await strategy.on_step_end(number, StepResult(both[-1], state))
        said = [message for turn in both for message in turn.messages]
        judged = await llm.generate([*context.history, context.input, *said], "judge")
        return Turn([context.input, *judged.messages], judged.tool_executions, judged.usage, judged.cycles)


class Steps(Custom):
    """A step per model call, with tools, until the model calls none, or the stop condition says so."""

    name = "steps"

    async def execute(self, context: ExecutionContext) -> Turn:
        llm, strategy, state = context.llm, context.strategy, context.state
        messages, last, ended = list(context.history), None, False
        while not ended:
            strategy.on_step_start(state.step + 1, state)
            asked = [context.input] if last is None else [UserMessage(f"go on {state.step}")]
            last = await llm.generate(messages, *asked)
            state.messages.extend(last.messages)
            messages.extend(last.messages)
            strategy.on_step_end(state.step, StepResult(last, state))
            ended = not last.tool_executions or await strategy.stop_condition(state)
        assert last is not None
        return Turn(state.messages, [], last.usage, state.step)


class Waits(Custom):
    """Does nothing for a day, and says in the ledger's file by a tool call that it was told to stop."""

    name = "waits"

    async def execute(self, context: ExecutionContext) -> Turn:
        turn = await context.llm.generate(context.input)
        watch = asyncio.create_task(context.signal.wait())
        assert not context.signal.aborted
        await watch
        assert context.signal.aborted
        assert context.signal.reason
        raise asyncio.CancelledError(turn.response.text)


class Sleeps(Custom):
    """Does nothing for a day, whatever it is told."""

    name = "sleeps"

    async def execute(self, context: ExecutionContext) -> Turn:
        turn = await context.llm.generate(context.input)
        await asyncio.sleep(86400)
        return turn


class Clock(Custom):
    """Asks the time."""

    name = "clock"

    async def execute(self, context: ExecutionContext) -> Turn:
        return await context.llm.generate(f"It is {time.time()}.")


class Dice(Custom):
    """Throws dice."""

    name = "dice"

    async def execute(self, context: ExecutionContext) -> Turn:
        return await context.llm.generate(f"I threw a {random.randint(1, 6)}.")


class Reads(Custom):
    """Reads a file."""

    name = "reads"

    async def execute(self, context: ExecutionContext) -> Turn:
        with open("/etc/hostname") as file:  # noqa: ASYNC230, PTH123 -- refused
            return await context.llm.generate(file.read())


class Wrong(Custom):
    """Returns no turn."""

    name = "wrong"

    async def execute(self, context: ExecutionContext) -> Turn:
        return "a text"  # type: ignore[return-value] # pyright: ignore[reportReturnType]


class Looks(Custom):
    """Says what of its context it sees."""

    name = "looks"

    async def execute(self, context: ExecutionContext) -> Turn:
        cut = context.input.metadata is not None
        seen = [context.agent.name, len(context.history), [item.name for item in context.tools], cut]
        return await context.llm.generate(context.history, context.input, json.dumps(seen))


class Resumes(Custom):
    """One model call per step, twenty steps, from wherever it stands."""

    name = "resumes"
    resumable = True

    async def execute(self, context: ExecutionContext) -> Turn:
        state, turn = context.state, None
        for number in range(state.step + 1, 21):
            await context.strategy.on_step_start(number, state)
            turn = await context.llm.generate([context.input], f"step {number}")
            state.metadata["steps"] = number
            await context.strategy.on_step_end(number, StepResult(turn, state))
        assert turn is not None
        return turn


def on_step_start(step: int, state: ExecutionState) -> None:
    state.metadata["started"] = step


async def on_step_end(step: int, result: StepResult) -> None:
    state = result.state
    name = next((name_of(item.text) for item in state.messages if item.text.startswith("{")), None)
    if name is not None:
        write_ledger(
            "hook", name, step=step, messages=[[str(item.type), item.text] for item in state.messages],
            turn=[item.text for item in result.turn.messages], metadata=dict(state.metadata),
            executions=len(result.turn.tool_executions), cycles=result.turn.cycles,
        )  # fmt: skip
    state.metadata["ended"] = step


def on_complete(turn: Turn) -> None:
    first = turn.messages[0].text
    if first.startswith("{"):
        write_ledger("complete", name_of(first), said=[item.text for item in turn.messages])


def stop_condition(state: ExecutionState) -> bool:
    return state.metadata["ended"] == 3


hooks = AgentStrategy(
    on_step_start=on_step_start, on_step_end=on_step_end, on_complete=on_complete, stop_condition=stop_condition
)


@tool(effect="none")
async def look(name: str, key: str) -> str:
    """Look."""
    write_ledger("tool", name, key=key)
    return f"{key} {LONG}"


async def _says(request: LLMRequest) -> Answer:
    last = request.messages[-1].text
    _log("model", request, last=last[:40])
    await asyncio.sleep(0.05)
    return Answer(f"answer to {last[:30]!r} {LONG}")


async def _acts(request: LLMRequest) -> Answer:
    """Calls two tools, then speaks; each time it is asked."""
    _log("model", request, last=request.messages[-1].text[:40])
    name = name_of(request.messages[0].text)
    asked = sum(message.type == "user" for message in request.messages)
    if request.messages[-1].type == "tool_result":
        return Answer(f"seen {asked} {LONG}")
    if asked > 5:
        return Answer("nothing left")
    calls = [ToolCall(f"{asked}.{place}", "look", {"name": name, "key": f"{asked}.{place}"}) for place in range(2)]
    return Answer(f"looking {asked}", tool_calls=calls)


custom = Custom()
agents = {
    made.name: made
    for made in [
        agent(name="custom", model=scripted(_says), execution=custom, strategy=hooks),
        agent(name="quiet", model=scripted(_says), execution=Quiet()),
        agent(name="debate", model=scripted(_says), execution=Debate(2), strategy=hooks),
        agent(name="steps", model=scripted(_acts), tools=[look], execution=Steps(), strategy=hooks),
        agent(name="waits", model=scripted(_says), execution=Waits()),
        agent(name="sleeps", model=scripted(_says), execution=Sleeps()),
        agent(name="clock", model=scripted(_says), execution=Clock()),
        agent(name="dice", model=scripted(_says), execution=Dice()),
        agent(name="reads", model=scripted(_says), execution=Reads()),
        agent(name="wrong", model=scripted(_says), execution=Wrong()),
        agent(name="looks", model=scripted(_says), tools=[look], execution=Looks()),
        agent(name="resumes", model=scripted(_says), execution=Resumes(), strategy=hooks),
    ]
}
app = App(agents=list(agents.values()))
