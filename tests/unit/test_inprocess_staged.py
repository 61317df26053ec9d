"""Agents that walk a workflow in process: what the model is shown, what it is told, and what stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perdure import agent, session
from perdure.errors import InvalidInput
from perdure.execution import loop, staged
from perdure.inprocess.stages import MemoryBodies
from perdure.uaip import State, TaskContext, Workflow, stage, task, workflow, workflow_from_json
from perdure.uap.agent import Agent
from perdure.uap.spec import StrategySpec
from perdure.upp import LLMRequest, ToolUseStrategy, tool
from perdure.upp.json_value import sha256_hex
from perdure.upp.messages import ToolResultMessage, message_from_json
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.tool_use import AfterCallResult
from perdure.upp.turn import Turn
from tests.unit.uaip.stage_store import Store


class Walker:
    """A model that gives these answers, and keeps what it was sent."""

    def __init__(self, *answers: list[Any] | str) -> None:
        self.answers = [Answer("", tool_calls=item) if isinstance(item, list) else Answer(item) for item in answers]
        self.requests: list[LLMRequest] = []

    def __call__(self, request: LLMRequest) -> Answer:
        self.requests.append(request)
        return self.answers[len(self.requests) - 1]

    @property
    def shown(self) -> list[list[str]]:
        """The names of the tools of each request."""
        return [[item.name for item in request.tools] for request in self.requests]

    def walks(self, walked: Workflow, **more: Any) -> Agent:
        """An agent with this model."""
        return agent(name="walker", model=scripted(self), execution=staged(walked), **more)


def told(turn: Turn) -> list[Any]:
    """The last line of each call's words, with the stage after it; or the error."""
    return [
        (str(item.result["content"]).rpartition("\n")[2], item.result["stage"])
        if isinstance(item.result, dict)
        else item.result
        for item in turn.tool_executions
    ]


def to(name: str) -> Any:
    """A transition."""
    return call("transition_stage", target_stage=name)


async def test_a_model_has_its_stages_tools_alone() -> None:
    """In each step: the stage's tasks, the ways on, the end, what is missing once that was said, and its own tools."""

    @tool
    def look() -> str:
        return "seen"

    moved = to("select"), call("add", sku="a"), to("checkout")
    model = Walker([*moved], [call("provide_state", **{"user.email": "a@b"}), to("checkout"), to("done")], "so")
    turn = await model.walks(Store, tools=[look]).run("buy")
    own = ["transition_stage", "terminate_session"]
    assert model.shown == [
        ["search", *own, "look"],
        ["add", "fail", *own, "provide_state", "look"],
        ["receipt", "terminate_session", "look"],
    ]
    assert told(turn)[2] == ("Please provide the values by calling provide_state.", "select")
    assert told(turn)[-1] == ("Successfully transitioned from 'checkout' to 'done'.", "done")
    assert turn.response.text == "so"


async def test_a_call_is_gated_when_it_is_made() -> None:
    """The words are UAIP's, whatever the model was shown; nothing of it is run."""
    strange = [call("add", sku="a"), call("nothing"), to("done"), to("moon"), call("provide_state", x=1), call("a b")]
    model = Walker(strange, "so")
    turn = await model.walks(Store).run("buy")
    assert told(turn) == [
        "Error: Task 'add' not found in stage 'browse'",
        "Error: Task 'nothing' not found in stage 'browse'",
        "Error: Cannot transition from 'browse' to 'done'\n\nAllowed options: select",
        "Error: Cannot transition from 'browse' to 'moon'\n\nAllowed options: select",
        "Error: 'provide_state' is for what a transition was refused for, and nothing is missing",
        "Tool 'a b' not found",
    ]
    assert all(item.is_error for item in turn.tool_executions)


async def test_the_model_is_told_the_words_and_the_thread_has_the_place() -> None:
    model = Walker([call("search", query="pen", limit=1)], "so")
    turn = await model.walks(Store).run("buy")
    words = 'Task \'search\' executed successfully.\n\nResult:\n[{"sku":"pen-0","price":0.5}]'
    sent, kept = model.requests[1].messages[2], turn.messages[2]
    assert isinstance(sent, ToolResultMessage)
    assert isinstance(kept, ToolResultMessage)
    assert sent.results[0].result == words
    assert isinstance(result := kept.results[0].result, dict)
    assert (result["content"], result["stage"], len(str(result["state"]))) == (words, "browse", 64)


async def test_a_task_that_fails_leaves_the_session_as_it_was() -> None:
    """It raised, its arguments did not fit, or a person was needed whom nobody could ask."""
    model = Walker(
        [to("select"), call("add", sku="a"), call("fail"), call("add", sku="b", quantity="2"), call("add", sku="c")],
        [to("checkout"), call("provide_state", **{"user.email": "a@b"}), to("checkout"), call("pay")],
        "so",
    )
    turn = await model.walks(Store).run("buy")
    assert told(turn)[1:5] == [
        ("1", "select"),
        "Error: none left",
        "Error: Invalid arguments for task 'add': $.quantity: '2' is not of type 'integer'",
        ("2", "select"),
    ]
    assert "needs a person's approval" in told(turn)[-1]


def counting(seen: list[str], let_go: asyncio.Event | None = None) -> Workflow:
    """A workflow whose task notes when it begins and ends, and waits in between if it is told to."""

    @stage
    class One:
        @task
        async def step(self, state: State, context: TaskContext, waits: bool = False) -> int:
            seen.append(f"+{context.call_id}")
            if waits and let_go is not None:
                await let_go.wait()
            state.set("n", state.get("n", 0) + 1)
            seen.append(f"-{context.call_id}")
            return state.get("n")

    @workflow
    class Count:
        one = One

    return Count


async def test_calls_of_a_stage_run_in_turn_and_the_agents_own_beside_them() -> None:
    """Each finds the state that the one before it left."""
    seen: list[str] = []
    begun = asyncio.Event()

    @tool
    async def own() -> str:
        seen.append("own")
        begun.set()
        return "done"

    calls = [call("step", waits=True), call("own"), call("step"), call("step")]
    turn = await Walker(calls, "so").walks(counting(seen, begun), tools=[own]).run("go")
    assert [item for item in told(turn) if item != "done"] == [("1", "one"), ("2", "one"), ("3", "one")]
    ids = [item.tool_call_id for item in turn.tool_executions]
    steps = [f"{sign}{ids[at]}" for at in (0, 2, 3) for sign in "+-"]
    assert [item for item in seen if item != "own"] == steps
    assert seen.index("own") < seen.index(steps[1]), "it did not wait for the first"


async def test_a_hook_may_say_other_words() -> None:
    """What `on_after_call` makes of a result is what the model is told; the session goes on all the same."""

    def louder(_tool: object, _arguments: object, result: object) -> AfterCallResult:
        return AfterCallResult(str(result).upper())

    calls = [to("select"), call("add", sku="a")]
    turn = await Walker(calls, "so").walks(Store, tool_strategy=ToolUseStrategy(on_after_call=louder)).run("buy")
    assert told(turn) == [("SUCCESSFULLY TRANSITIONED FROM 'BROWSE' TO 'SELECT'.", "select"), ("1", "select")]


async def test_a_history_that_is_given_says_where_it_goes_on() -> None:
    """Without a session too: the thread is all that is needed."""
    model = Walker([to("select"), call("add", sku="a")], "so", [call("add", sku="b")], "so", "new")
    walker = model.walks(Store)
    before = await walker.run("buy")
    after = await walker.run(before.messages, "more")
    assert told(after) == [("2", "select")]
    await walker.run("another")
    assert model.shown[-1][0] == "search", "a thread of its own begins at the beginning"


async def test_an_ended_session_is_followed_by_a_new_one() -> None:
    """In the run that ended it no stage's tool is left; the next run of the thread begins anew."""
    model = Walker([to("select"), call("terminate_session", reason="enough")], [call("add", sku="a")], "so", "next")
    chat = session(model.walks(Store))
    turn = await chat.run("buy")
    await chat.run("again")
    assert told(turn)[1:] == [("Session terminated.", ""), "Error: Session not found"]
    assert model.shown == [["search", "transition_stage", "terminate_session"], [], [], model.shown[0]]


async def test_the_limit_of_steps_ends_the_run_with_what_there_is() -> None:
    model = Walker([to("select")], [call("add", sku="a")], "never")
    walker = agent(model=scripted(model), execution=staged(Store, max_steps=2))
    turn = await walker.run("buy")
    assert told(turn)[-1] == ("1", "select")
    assert len(model.requests) == 2


async def test_a_task_may_be_an_agent_or_an_http_call() -> None:
    """Both give the task's result; `save_as` puts it into the state. Arguments are checked before either begins."""
    expert = agent(name="expert", model=scripted(["so they say"]))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n42")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    number: dict[str, Any] = {"http": {"method": "GET", "url": f"http://127.0.0.1:{port}/"}, "save_as": "number"}
    about = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}
    advice: dict[str, Any] = {"agent": "expert", "parameters": about, "save_as": "advice"}
    tasks = {"number": number, "advice": advice, "show": {"function": "show"}}
    document = {"name": "desk", "stages": {"only": {"tasks": tasks}}}

    def show(state: State) -> str:
        return json.dumps(state.to_json(), sort_keys=True)

    desk = workflow_from_json(json.dumps(document), functions={"show": show}, agents=[expert])
    calls = [call("number"), call("advice"), call("advice", task="pens"), call("show")]
    async with server:
        turn = await Walker(calls, "so").walks(desk).run("go")
    assert told(turn)[0] == ("42", "only")
    assert told(turn)[1] == "Error: Invalid arguments for task 'advice': $: 'task' is a required property"
    assert told(turn)[2] == ('"so they say"', "only")
    assert json.loads(json.loads(told(turn)[3][0])) == {"advice": "so they say", "number": 42}


async def test_a_run_walks_the_graph_that_is_deployed_when_it_begins() -> None:
    """With the values of the thread. A stage that is no more is left for the first; another workflow begins anew."""

    def graph(*stages: type, name: str = "walk") -> Workflow:
        ways = {before: [after] for before, after in pairwise(stages)}
        return workflow(name=name)(type("Graph", (), {**{item.__name__: item for item in stages}, "transitions": ways}))

    @stage(name="a")
    class A:
        @task
        def put(self, state: State) -> bool:
            state.set("k", 1)
            return True

    @stage(name="b")
    class B:
        @task
        def get(self, state: State) -> bool:
            return state.has("k")

    @stage(name="c")
    class C:
        @task
        def also(self, state: State) -> bool:
            return state.has("k")

    first = await Walker([call("put"), to("b"), call("get")], "so").walks(graph(A, B)).run("go")
    model = Walker([call("get")], "so", "so", "so")
    kept = await model.walks(graph(A, B, C)).run(first.messages, "on")
    assert told(kept) == [("true", "b")]
    model = Walker([call("also")], "so")
    assert told(await model.walks(graph(C, A)).run(first.messages, "on")) == [("true", "c")]
    model = Walker([call("also")], "so")
    assert told(await model.walks(graph(C, A, name="other")).run(first.messages, "on")) == [("false", "c")]


async def test_a_state_of_another_process_is_missed_in_plain_words() -> None:
    """A thread from elsewhere names a state that this process does not have."""
    turn = await Walker([to("select")], "so").walks(Store).run("buy")
    document = json.loads(json.dumps(turn.messages[2].to_json()))
    document["results"][0]["result"]["state"] = "0" * 64
    foreign = [*turn.messages[:2], message_from_json(document)]
    with pytest.raises(InvalidInput, match="does not have the stage session's state 000000000000"):
        await Walker("so").walks(Store).run(foreign, "on")


async def test_what_was_not_used_longest_goes_first() -> None:
    """Memory has an end; what was used last is there."""
    bodies = MemoryBodies(most_bytes=20)
    await bodies.write([b"a" * 10, b"b" * 10])
    await bodies.read(sha256_hex(b"a" * 10))
    await bodies.write([b"c" * 10])
    assert await bodies.read(sha256_hex(b"a" * 10)) == b"a" * 10
    with pytest.raises(InvalidInput):
        await bodies.read(sha256_hex(b"b" * 10))


@tool
def search() -> None: ...


@tool(name="Provide-State")
def provide() -> None: ...


EXPERT = agent(name="expert", model=scripted(["so"]))


def hurried() -> Workflow:
    """A workflow with a task that is an agent and must be approved."""

    @stage
    class Only:
        @task(agent=EXPERT, approval="human")
        def ask(self, task: str):
            """Ask."""

    @workflow
    class Hurried:
        only = Only

    return Hurried


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("a task's name", lambda: Walker().walks(Store, tools=[search]), "'search' and 'search' cannot be told apart"),
    ("a reserved name", lambda: Walker().walks(Store, tools=[provide]), "cannot be told apart"),
    ("no workflow", lambda: staged("store"), "staged takes a workflow"),  # pyright: ignore[reportArgumentType]
    ("no steps", lambda: staged(Store, max_steps=0), "max_steps is 0"),
    ("the name alone", lambda: agent(execution=StrategySpec("staged")), r"execution=staged\(Store\)"),
    ("an agent with approval", lambda: staged(hurried()), "'ask' of stage 'only' is an agent's"),
]


@pytest.mark.parametrize(("make", "text"), [item[1:] for item in REFUSED], ids=[item[0] for item in REFUSED])
def test_what_cannot_be_walked_is_refused_when_it_is_defined(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        make()


def test_a_copy_walks_the_same_workflow() -> None:
    walker = Walker().walks(Store)
    assert walker.copy(system="Be brief.").staged is walker.staged
    assert walker.copy(execution=loop()).staged is None


def test_a_run_freezes_every_task_with_its_stage() -> None:
    """What a workflow must know of each is in the spec; the definition is named by its hash."""
    spec = Walker().walks(Store).spec()
    assert [item.name for item in spec.tools] == [
        "browse.search",
        "select.add",
        "select.fail",
        "checkout.pay",
        "done.receipt",
    ]
    assert (spec.tools[0].attempts, spec.tools[3].approval, spec.tools[3].effect) == (3, "human", "idempotent")
    assert spec.strategy.options == {"workflow": "store", "definition": Store.definition.sha256, "max_steps": 50}


async def test_the_example_of_the_docs_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands there, with another model."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    page = (Path(__file__).parents[2] / "docs" / "staged.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "docs"}
    exec(compile(page.partition("```python\n")[2].partition("```")[0], "staged.md", "exec"), names)  # noqa: S102
    email = call("provide_state", **{"user.email": "a@b"})
    model = Walker([call("add_to_cart", product_id="pen"), to("checkout")], [email, to("checkout"), call("pay")], "so")
    turn = await names["buyer"].copy(model=scripted(model)).run("buy")
    assert told(turn)[-1] == ('"sent to a@b"', "checkout")
    assert len(page.splitlines()) <= 50
