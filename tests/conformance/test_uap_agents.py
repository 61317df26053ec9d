"""Facts that UAP's own tests assert of agents, and readings of what it says of sub-agents; in process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Unpack

import pytest

from perdure import Session, agent, session
from perdure.errors import InvalidInput, LimitExceeded
from perdure.execution import loop, plan, react
from perdure.inprocess import InProcessHost
from perdure.middleware import budget
from perdure.uap.active_session import current_run
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent, UAPEvent, UAPEventType
from perdure.uap.agent_tool import AgentTool
from perdure.uap.app import App
from perdure.uap.hooks import AgentStrategy
from perdure.uap.host import connected
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.lineage import current, usage_by_agent
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.option_types import AgentOptions
from perdure.uap.options import RunOptions
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.prices import Price, PriceTable
from perdure.upp.provider import LLMRequest, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.tool_call import ToolCall
from perdure.upp.tool_use import BeforeCallResult, ToolUseStrategy
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage, aggregate_usage

SHAPE: JSONObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STEP = TokenUsage(100, 50, 150)
PRICES: PriceTable = {"scripted": {"scripted": Price(input=Decimal(10), output=Decimal(0))}}
"""A model call with usage `STEP` costs 1."""


@tool
def look(word: str) -> str:
    """Look a word up."""
    return f"seen {word}"


@dataclass
class Recorded:
    """A scripted model whose requests are kept."""

    script: Sequence[ScriptedAnswer]
    requests: list[LLMRequest] = field(default_factory=list[LLMRequest])

    @property
    def model(self) -> ModelReference:
        return scripted(self.answer)

    def answer(self, request: LLMRequest) -> ScriptedAnswer:
        self.requests.append(request)
        return self.script[sum(isinstance(message, AssistantMessage) for message in request.messages)]


def says(text: str) -> Answer:
    return Answer(text, usage=STEP)


def calls(*made: ToolCall) -> Answer:
    return Answer(tool_calls=made, usage=STEP)


def delegating(*children: Tool | Agent, times: int = 1, **options: Unpack[AgentOptions]) -> Agent:
    """An agent that gives a task to each of its sub-agents at once, and then says "done"."""
    made = agent(tools=children)
    wanted = [call(item.name, task="do it") for item in made.resolved] * times
    options.update({"model": scripted([calls(*wanted), says("done")]), "tools": children})
    return agent(**options)


def results(messages: Sequence[Message]) -> list[Any]:
    return [item.result for message in messages if isinstance(message, ToolResultMessage) for item in message.results]


def helper(text: str = "helped", **options: Unpack[AgentOptions]) -> Agent:
    made: AgentOptions = {"model": scripted([says(text)]), "name": "helper", "system": "You help. Always."}
    made.update(options)
    return agent(**made)


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


class Seeing(Middleware):
    """Keeps its contexts and events."""

    def __init__(self) -> None:
        self.contexts: list[MiddlewareContext] = []
        self.events: list[UAPEvent] = []

    def before(self, context: MiddlewareContext) -> None:
        self.contexts.append(context)

    async def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        self.events.append(event)

    def ends(self, of: Agent) -> int:
        return sum(event.type is UAPEventType.STEP_END and event.agent_id == of.id for event in self.events)


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


# 4.34: inheritance

VENDOR_A, VENDOR_B = ProviderConfig(api_key="a", headers={"x": "a", "y": "a"}), ProviderConfig(headers={"x": "b"})


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


def nested(levels: int, max_depth: int = 8) -> Agent:
    """A tower of agents: each gives its task to the one below, the lowest says "bottom"."""
    made = agent(model=scripted(["bottom"]), name="level0")
    for level in range(1, levels):
        made = agent(model=scripted([call(made.name or "", task="t"), "end"]), name=f"level{level}", tools=[made])
    script = [call(made.name or "", task="t"), "end"]
    return agent(model=scripted(script), name="top", tools=[made], max_depth=max_depth)


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


# 8.5 and 4.30: concurrency, sessions


@dataclass
class Meeting:
    """Models that answer when so many are being asked at once."""

    expected: int
    asked: int = 0
    all_here: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: LLMRequest) -> str:
        self.asked += 1
        if self.asked == self.expected:
            self.all_here.set()
        await asyncio.wait_for(self.all_here.wait(), 5)
        return f"did {request.messages[-1].text}"


async def test_sub_agents_run_at_once_and_answer_in_call_order() -> None:
    meeting = Meeting(4)
    both = [agent(model=scripted(meeting.answer), name=name) for name in ("a", "b")]
    chat = session(delegating(*both, times=2))
    turn = await chat.run("go")
    assert results(turn.messages) == ["did do it"] * 4
    states = chat.checkpoints[0].sub_agent_states
    assert list(states) == [call.tool_call_id for call in turn.messages[1].tool_calls or ()]  # type: ignore[union-attr]


async def test_reading_4_30_each_call_has_a_session_in_the_parents_checkpoint() -> None:
    chat = session(nested(2))
    await chat.run("go")
    assert len(chat.checkpoints) == 2
    (first,) = chat.checkpoints[0].sub_agent_states.values()
    child = Session.from_json(first, agent(model=scripted([]), name="level1"))
    assert child.thread_tree.history()[0].text == "t"
    assert is_uuid4(child.id)
    assert chat.to_json()["checkpoints"][0]["subAgentStates"] == chat.checkpoints[0].sub_agent_states  # type: ignore[index, call-overload]
    ((deep,),) = [list(item.sub_agent_states.values()) for item in child.checkpoints[:1]]
    assert "bottom" in str(deep)
    again = Session.from_json(chat.to_json(), chat.agent)
    assert again.to_json() == chat.to_json()


async def test_reading_4_30_a_sub_agent_that_fails_leaves_its_session_too() -> None:
    child = agent(model=scripted([call("look", word="w"), ValueError("broken")]), name="c", tools=[look])
    chat = session(delegating(child))
    turn = await chat.run("go")
    assert turn.tool_executions[0].is_error
    (kept,) = chat.checkpoints[0].sub_agent_states.values()
    assert len(kept["checkpoints"]) == 1  # type: ignore[arg-type]


async def test_without_a_session_none_is_kept() -> None:
    turn = await delegating(helper()).run("go")
    assert results(turn.messages) == ["helped"]


# Cancelling


@dataclass
class Ends:
    """Two models that never answer; counts how they are stopped."""

    asked: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list[str])

    async def answer(self, _: LLMRequest) -> str:
        self.asked += 1
        if self.asked == 2:
            self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("stopped")
        raise AssertionError("unreachable")


def towering(low: ModelReference) -> Agent:
    lows = [agent(model=low, name=f"low{number}") for number in (1, 2)]
    return delegating(delegating(*lows, name="mid"), name="top")


async def test_cancelling_the_parent_cancels_all_levels_and_each_ends_once() -> None:
    ends = Ends()
    chat = session(towering(scripted(ends.answer)))
    running = asyncio.create_task(chat.run("go"))
    await asyncio.wait_for(ends.begun.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ends.ended == ["stopped"] * 2
    assert current() is None
    assert chat.thread_tree.history() == []


async def test_aborting_the_parents_stream_cancels_all_levels() -> None:
    ends = Ends()
    stream = towering(scripted(ends.answer)).stream("go", sub_agents=True)

    async def abort() -> None:
        await asyncio.wait_for(ends.begun.wait(), 5)
        stream.abort()

    aborting = asyncio.create_task(abort())
    read = [event async for event in stream]
    await aborting
    turn = await stream
    assert ends.ended == ["stopped"] * 2
    assert (turn.response.metadata or {})["uap"]["aborted"] is True
    assert not any(item.uap and item.uap.type is UAPEventType.STEP_END for item in read)


# 4.54: events


async def test_reading_4_54_events_of_sub_agents_are_not_forwarded_unless_wanted() -> None:
    made = delegating(helper(), name="parent")
    plain = [event async for event in made.stream("go")]
    assert {event.uap.agent_id for event in plain if event.uap} == {made.id}
    assert all(event.path == () and "path" not in event.to_json() for event in plain)
    wanted = [event async for event in made.stream("go", sub_agents=True)]
    assert [event.uap.type for event in wanted if event.uap and not event.path] == [
        event.uap.type for event in plain if event.uap
    ]


async def test_reading_4_54_forwarded_events_say_whose_they_are() -> None:
    child = helper()
    made = delegating(delegating(child, name="mid"), times=2, name="top")
    read = [event async for event in made.stream("go", sub_agents=True)]
    mids = [event for event in read if event.path == ("mid",)]
    lows = [event for event in read if event.path == ("mid", "helper")]
    assert len(mids) + len(lows) + sum(event.path == () for event in read) == len(read)
    assert len({event.call for event in mids}) == 2
    assert "".join(event.upp.delta.text or "" for event in lows if event.upp) == "helped" * 2
    starts = [event.uap for event in lows if event.uap and event.uap.type is UAPEventType.STEP_START]
    assert [event.agent_id for event in starts] == [child.id] * 2
    above = {str(event.uap.data["turnId"]) for event in mids if event.uap}
    assert {str(event.data["parentTurnId"]) for event in starts} == above
    for event in read:
        assert AgentStreamEvent.from_json(event.to_json()) == event


async def test_the_turn_is_the_same_whether_events_are_wanted_or_not() -> None:
    made = delegating(delegating(helper(), name="mid"), name="top")
    turns = [await made.run("go"), await made.stream("go"), await made.stream("go", sub_agents=True)]
    assert len({str([message.text for message in turn.messages]) for turn in turns}) == 1
    assert len({str(turn.usage) for turn in turns}) == 1


# Limits, budget, usage


async def test_a_budget_counts_sub_agents_of_any_depth_each_step_once() -> None:
    seeing, low = Seeing(), helper()
    mid = delegating(low, name="mid")
    top = delegating(mid, name="top", middleware=[seeing, budget(max_tokens=5 * 150)])
    await top.run("go")
    assert [seeing.ends(item) for item in (top, mid, low)] == [2, 2, 1]
    assert seeing.contexts[0].spent.tokens == 5 * 150
    assert seeing.contexts[0].spent.steps == 2
    with pytest.raises(LimitExceeded, match="its budget is 600"):
        await top.copy(middleware=[budget(max_tokens=4 * 150)]).run("go")


async def test_what_a_parents_middleware_raises_ends_sub_agent_and_parent() -> None:
    class Strict(Middleware):
        def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
            if event.agent_id != context.agent.id:
                raise LimitExceeded("enough", code="max_tokens")

    low = agent(model=scripted([calls(call("look", word="w")), says("never")]), tools=[look], name="low")
    asked = Recorded([calls(call("low", task="t")), says("never")])
    mid = agent(model=asked.model, tools=[low], name="mid")
    with pytest.raises(LimitExceeded, match="enough"):
        await delegating(mid, name="top", middleware=[Strict()]).run("go")
    assert len(asked.requests) == 1


@pytest.mark.parametrize(
    ("limit", "told"), [("3.5", "seen it"), ("2", "the run cost 1, its limit is 1"), ("1", "its sub-agents cost 1")]
)
async def test_a_sub_agent_may_cost_what_its_parent_has_left(limit: str, told: str) -> None:
    child = agent(model=scripted([calls(call("look", word="w")), says("seen it")]), tools=[look], name="child")
    seeing = Seeing()
    hooks = AgentStrategy(stop_condition=lambda state: state.step == 1)
    with connected(InProcessHost(PRICES)):
        parent = delegating(child, name="parent", middleware=[seeing], strategy=hooks)
        await parent.run("go", options=RunOptions(max_cost=Decimal(limit)))
    (observed,) = [event for event in seeing.events if event.type is UAPEventType.OBSERVATION]
    assert told in str(observed.data["results"])


async def test_a_parent_that_its_sub_agents_left_nothing_takes_no_further_step() -> None:
    children = [helper(name=f"h{number}") for number in range(3)]
    with connected(InProcessHost(PRICES)), pytest.raises(LimitExceeded, match="and its sub-agents cost 4"):
        await delegating(*children, name="parent").run("go", options=RunOptions(max_cost=Decimal("3.5")))


async def test_usage_by_agent_sums_to_what_all_model_calls_used() -> None:
    inside: list[dict[str, TokenUsage]] = []
    hooks = AgentStrategy(on_complete=lambda _: inside.append(usage_by_agent()))
    low = helper()
    top = delegating(delegating(low, name="mid"), times=2, name="top", strategy=hooks)
    with connected(InProcessHost(PRICES)):
        turn = await top.run("go")
    (used,) = inside
    assert {path: usage.cost for path, usage in used.items()} == {"top": 2, "top/mid": 4, "top/mid/helper": 2}
    assert used["top"] == turn.usage
    assert aggregate_usage(used.values()).cost == 8


async def test_a_sessions_run_has_the_usage_by_agent_also_when_it_failed() -> None:
    runs: list[Any] = []
    broken = scripted([calls(call("helper", task="t")), ValueError("broken")])
    hooks = AgentStrategy(on_step_start=lambda _, __: runs.append(current_run()))
    with pytest.raises(ValueError, match="broken"):
        await session(agent(model=broken, name="top", tools=[helper()], strategy=hooks)).run("go")
    assert {path: usage.total_tokens for path, usage in runs[0].usage_by_agent.items()} == {
        "top": 150,
        "top/helper": 150,
    }


async def test_a_sub_agents_time_limit_is_its_tools() -> None:
    slow = agent(model=scripted(["late"], latency=30.0), name="slow")
    child = replace(slow.to_tool(), timeout=timedelta(seconds=0.05))
    turn = await delegating(child).run("go")
    assert "timed out" in str(results(turn.messages)[0])
