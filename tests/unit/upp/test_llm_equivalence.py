"""`generate()` and `stream()` give the same turn, whatever the model says and the tools do."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.llm import LLMInstance, llm
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMResponse
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_call import ToolCall
from perdure.upp.tool_use import AfterCallResult, BeforeCallResult, ToolUseStrategy
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn
from tests.unit.upp import strategies as upp
from tests.unit.upp.models import FakeModel, giving, tool_named

SCHEMA: JSONObject = {"type": "object"}


def echo(params: JSONObject) -> JSONObject:
    return params


async def later(params: JSONObject) -> JSONValue:
    await asyncio.sleep(0)
    return list(params)


def fail(_: JSONObject) -> None:
    raise ValueError("broken")


TOOLS = [
    tool_named("echo", echo),
    tool_named("later", later),
    tool_named("alone", later, sequential=True),
    tool_named("fail", fail),
    tool_named("denied", approval=giving(False)),
    tool_named("approved", echo, approval=giving(True)),
    tool_named("not_json", giving(object())),
]


def before(tool: Tool, params: JSONObject) -> bool | BeforeCallResult:
    if "skip" in params:
        return False
    return BeforeCallResult(True, {**params, "tool": tool.name})


def after(_: Tool, __: JSONObject, result: Any) -> AfterCallResult | None:
    return AfterCallResult("empty") if not result else None


tool_calls = st.builds(
    ToolCall,
    st.sampled_from("abc"),
    st.sampled_from([*(tool.name for tool in TOOLS), "unknown"]),
    st.dictionaries(st.sampled_from(["x", "skip"]), upp.json_values(2), max_size=2) | upp.texts(3),
)
assistant_messages = st.builds(
    AssistantMessage,
    st.lists(upp.text_blocks | upp.reasoning_blocks, max_size=3),
    st.none() | st.lists(tool_calls, max_size=4),
)
answers = st.builds(LLMResponse, assistant_messages, upp.usages, data=st.none() | upp.json_objects())
scripts = st.lists(answers, min_size=1, max_size=4)
strategies = st.builds(
    ToolUseStrategy,
    max_iterations=st.integers(0, 3),
    on_before_call=st.none() | st.just(before),
    on_after_call=st.none() | st.just(after),
)
structures = st.none() | st.just(SCHEMA)
Outcome = tuple[object, ...]


def outcome(turn: Turn) -> Outcome:
    """The turn without what differs from one run to the next: ids that were drawn, times and durations."""
    messages = [
        {name: value for name, value in message.to_json().items() if name not in ("id", "timestamp")}
        for message in turn.messages
    ]
    executions = [dataclasses.replace(item, duration_ms=0) for item in turn.tool_executions]
    return messages, executions, turn.usage, turn.cycles, turn.data


def make(script: Sequence[LLMResponse], strategy: ToolUseStrategy, structure: JSONObject | None) -> LLMInstance:
    model = FakeModel(*script, *[IndexError("the script is over")] * 4)
    return llm(model=model.reference(), tools=TOOLS, tool_strategy=strategy, structure=structure)


async def settled(infer: Callable[[], Any]) -> Outcome:
    try:
        return outcome(await infer())
    except Exception as error:  # noqa: BLE001  # the same failure is the same outcome
        return type(error), str(error)


@given(scripts, strategies, structures)
def test_generate_and_stream_give_the_same_turn(
    script: list[LLMResponse], strategy: ToolUseStrategy, structure: JSONObject | None
) -> None:
    """Awaited or iterated; failures are the same too."""

    async def compare() -> None:
        expected = await settled(lambda: make(script, strategy, structure).generate("go"))
        assert await settled(lambda: make(script, strategy, structure).stream("go").turn) == expected

        async def iterate() -> Turn:
            stream = make(script, strategy, structure).stream("go")
            check_events([event async for event in stream], await stream)
            return await stream

        assert await settled(iterate) == expected

    asyncio.run(compare())


def check_events(events: list[StreamEvent], turn: Turn) -> None:
    """One message per cycle, one start and end per execution, all of the text."""
    kinds = [str(event.type) for event in events]
    assert kinds.count("message_start") == kinds.count("message_stop") == turn.cycles
    starts = [event.delta.tool_call_id for event in events if event.type == "tool_execution_start"]
    ends = [event.delta.tool_call_id for event in events if event.type == "tool_execution_end"]
    ids = sorted(execution.tool_call_id for execution in turn.tool_executions)
    assert sorted(filter(None, starts)) == sorted(filter(None, ends)) == ids
    said = [message for message in turn.messages if isinstance(message, AssistantMessage)]
    text = "".join(block.text for message in said for block in message.content if block.type == "text")
    assert "".join(event.delta.text or "" for event in events if event.type == "text_delta") == text
