"""Whatever is done to a session, in whatever order and of whatever workflow: it does what the specification says.

The specification is written a second time in `specification`. Here are random workflows, requests right and wrong,
pauses, executions that go on from their JSON form, actions that come twice, and time.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.uaip import State, workflow_from_json
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.decision import Known
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.machine import decide
from perdure.uaip.session import StageSession, pause, resume
from perdure.upp.json_value import JSONValue
from tests.scale import scaled
from tests.unit.uaip.served_session import ServedSession
from tests.unit.uaip.specification import KINDS, Specification, told
from tests.unit.uaip.stage_store import DAY_MS, SESSION

KEYS = ("a", "a.b", "cart.items", "user.email")
ANY_KEY = st.sampled_from([*KEYS, "events"])
STAGES = ("browse", "select", "pay", "done")
TASKS = ("put", "drop", "fail")
VALUES = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("xy", max_size=3) | st.lists(st.integers(0, 3), max_size=2)
)


async def put(state: State, key: str, value: JSONValue) -> JSONValue:
    state.set(key, value)
    return value


async def drop(state: State, key: str) -> bool:
    return state.delete(key)


async def fail(state: State, key: str, value: JSONValue) -> None:
    state.set(key, value)
    raise ValueError("Error")


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A workflow whose stages can all be reached and entered."""
    names = STAGES[: draw(st.integers(1, len(STAGES)))]
    needs = {name: draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=2)) for name in names}
    edges: dict[str, dict[str, Any]] = {name: {} for name in names}
    for source, target in pairwise(names):
        edges[source][target] = "all"
    for source, target in draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=5)):
        kept = draw(st.lists(st.sampled_from(KEYS), unique=True))
        edges[source][target] = draw(st.sampled_from(["all", [*kept, *(k for k in needs[target] if k not in kept)]]))
    tasks = {name: draw(st.lists(st.sampled_from(TASKS), unique=True)) for name in names}
    return {
        "name": "random",
        "initial_stage": names[0],
        "stages": {
            name: {"prerequisites": needs[name], "tasks": {task: {"function": task} for task in tasks[name]}}
            for name in names
        },
        "transitions": {
            source: [{"to": target, "keep": keep} for target, keep in ways.items()] for source, ways in edges.items()
        },
    }


class Sessions(RuleBasedStateMachine):
    """One session, served and specified."""

    @initialize(document=documents())
    def begin(self, document: dict[str, Any]) -> None:
        made = workflow_from_json(document, functions={"put": put, "drop": drop, "fail": fail})
        self.served = ServedSession.open(made)
        self.specified = Specification(document)
        self.held: list[Any] = []

    def send(self, action: str, **members: Any) -> None:
        self.request(SESSION, {"workflow_name": "random", "action": action, **members})

    def request(self, header: str | None, body: Any) -> None:
        reply = self.served.execute(header, body)
        if reply.body.get("status") == "paused":
            assert self.specified.paused
            self.held.append(body)
            return
        assert not self.specified.paused or "status" not in reply.body, "what is an action waits"
        status, outcome = self.specified.execute(header, body, "random")
        assert (reply.status, told(reply.body, outcome)) == (status, outcome)
        if "tools" in reply.body and not self.specified.ended and reply.body["status"] != "input_required":
            tools: Any = reply.body["tools"]
            assert [tool["name"] for tool in tools] == self.specified.tools()

    @rule(task=st.sampled_from([*TASKS, "nope"]), key=ANY_KEY, value=VALUES)
    def call(self, task: str, key: str, value: Any) -> None:
        self.send("method_call", task=task, args={"key": key} if task == "drop" else {"key": key, "value": value})

    @rule(
        task=st.sampled_from(TASKS),
        args=st.sampled_from([{}, {"key": 7, "value": 1}, {"key": "a", "value": 1, "z": 1}]),
    )
    def call_wrongly(self, task: str, args: dict[str, Any]) -> None:
        self.send("method_call", task=task, args=args)

    @rule(stage=st.sampled_from([*STAGES, "nope"]))
    def move(self, stage: str) -> None:
        self.send("stage_transition", stage=stage)

    @rule(data=st.data())
    def move_on(self, data: st.DataObject) -> None:
        """Where the graph leads, with all that is needed."""
        ways = self.specified.document["transitions"][self.specified.stage]
        if ways:
            target = data.draw(st.sampled_from(ways))["to"]
            needed = self.specified.document["stages"][target]["prerequisites"]
            self.send("state_input", state_updates=dict.fromkeys(needed, 1))
            self.send("stage_transition", stage=target)

    @rule(updates=st.dictionaries(ANY_KEY, VALUES, max_size=3))
    def provide(self, updates: dict[str, Any]) -> None:
        self.send("state_input", state_updates=updates)

    @rule(action=st.sampled_from([*KINDS[:3], "handshake", "fly", "", "Method_Call"]))
    def say_too_little(self, action: str) -> None:
        self.send(action)

    @rule(body=st.sampled_from([{}, {"workflow_name": "other"}, {"workflow_name": "random"}, {"action": "handshake"}]))
    def ask_wrongly(self, body: dict[str, Any]) -> None:
        self.request(SESSION, body)

    @rule(
        header=st.sampled_from([None, SESSION]),
        body=st.sampled_from([b"", b"[1]", b"{", b'"x"', b"\xff", b'{"a":NaN}']),
    )
    def send_no_json(self, header: str | None, body: bytes) -> None:
        self.request(header, body)

    @precondition(lambda self: self.served.count > 6)
    @rule()
    def terminate(self) -> None:
        self.send("terminate_session")

    @rule()
    def pause(self) -> None:
        self.served.session = pause(self.served.session)
        self.specified.paused = not self.specified.ended

    @rule(days=st.integers(0, 3))
    def resume(self, days: int) -> None:
        """What was held is done now, in the order in which it came; no time has passed for the session."""
        self.served.now_ms += days * DAY_MS * self.specified.paused
        self.served.session = resume(self.served.session, self.served.now_ms)
        self.specified.paused = False
        first = self.served.count - len(self.held) + 1
        self.served.settle()
        for ordinal, body in enumerate(self.held, first):
            status, outcome = self.specified.execute(SESSION, body, "random")
            reply = self.served.replies[ordinal]
            assert (reply.status, told(reply.body, outcome)) == (status, outcome)
        self.held = []

    @rule()
    def go_on_in_a_new_execution(self) -> None:
        """From JSON alone, on the definition that is stored with the session."""
        self.served.session = StageSession.from_json(json.loads(json.dumps(self.served.session.to_json())))
        self.served.definition = WorkflowDefinition.from_json(json.loads(json.dumps(self.served.definition.to_json())))

    @precondition(lambda self: self.served.session.taken > 0)
    @rule(data=st.data())
    def hear_an_action_again(self, data: st.DataObject) -> None:
        ordinal = data.draw(st.integers(1, self.served.session.taken))
        head = Action(ActionKind.STATE_INPUT, updates={"a": "again"}).head(ordinal, self.served.now_ms)
        assert decide(self.served.definition, self.served.session, head) == Known()

    @precondition(lambda self: self.served.count > 6 and not self.specified.paused)
    @rule()
    def wait_a_day(self) -> None:
        self.served.now_ms = self.served.session.settled_at_ms + DAY_MS
        self.specified.ended = True
        self.send("handshake")

    @invariant()
    def it_is_as_specified(self) -> None:
        served = getattr(self, "served", None)
        if served is None:
            return
        assert served.session.has_ended == self.specified.ended
        assert served.session.stage == self.specified.stage
        assert served.values == self.specified.state
        assert served.session.sizes == State(served.values).sizes()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=max(30, scaled(1000)), stateful_step_count=25, deadline=None)
