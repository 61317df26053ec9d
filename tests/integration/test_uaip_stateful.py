"""The whole protocol over real HTTP against its specification: several sessions, everything that can be sent, and restarts.

The specification is `tests.unit.uaip.specification`, which knows no versions, ordinals, rows, processes or time. Here are
workflows of several shapes, actions right and wrong, one at a time and many at once, keys that come again, pauses,
terminations, and a worker that is killed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from tests.integration.stack import Stack
from tests.integration.uaip_clients import Door, visitors
from tests.integration.uaip_graphs import DOCUMENTS, KEYS, STAGES, TASKS
from tests.integration.uaip_pairs import Pair
from tests.integration.uaip_processes import StageProcesses, stage_processes
from tests.scale import scaled
from tests.unit.uaip.specification import KINDS, Specification

APIS = 2
ANY_KEY = st.sampled_from([*KEYS, *KEYS, "events", "é", " ", "a'b\\"])
TEXT = st.text(st.characters(codec="utf-8"), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
AT = st.integers(0, APIS - 1)
WHICH = st.integers(0, 99)
"""One of what there is then; what is drawn itself does not depend on which of several actions at once was first."""
NO_NAMES = ["nope", "a\0b", "é" * 300, "' or 1=1 --", "../select"]
NO_JSON = [b"", b"[1]", b"{", b'"x"', b"\xff", b'{"a":NaN}', b"null", b"[" * 100_000]
WRONG_TYPES: list[dict[str, Any]] = [
    {"action": 7},
    {"action": ["method_call"]},
    {"action": "method_call", "task": 7},
    {"action": "method_call", "task": {"name": "put"}},
    {"action": "method_call", "task": "put", "args": []},
    {"action": "method_call", "task": "put", "args": None},
    {"action": "method_call", "task": "put", "args": "key"},
    {"action": "stage_transition", "stage": True},
    {"action": "stage_transition", "stage": ["select"]},
    {"action": "state_input", "state_updates": "a"},
    {"action": "state_input", "state_updates": [["a", 1]]},
    {"action": "terminate_session", "reason": 5},
]


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """The members of a method call, of a task that is there or not, with arguments that fit or not."""
    task = draw(st.sampled_from([*TASKS * 3, *NO_NAMES]))
    wrong = draw(st.sampled_from([None] * 6 + [{}, {"key": 7, "value": 1}, {"key": "a", "value": 1, "z": 1}]))
    key = draw(ANY_KEY)
    right = {"key": key} if task == "drop" else {"key": key, "value": draw(VALUES)}
    return {"action": "method_call", "task": task, "args": right if wrong is None else wrong}


MOVES = st.fixed_dictionaries(
    {"action": st.just("stage_transition"), "stage": st.sampled_from([*STAGES * 2, *NO_NAMES])}
)
INPUTS = st.fixed_dictionaries(
    {"action": st.just("state_input"), "state_updates": st.dictionaries(ANY_KEY, VALUES, max_size=3)}
)
GREETINGS = st.just({"action": "handshake"})
ACTIONS = st.one_of(calls(), MOVES, INPUTS, GREETINGS)


@dataclass(frozen=True)
class Place:
    """Where the sessions are served, and the loop in which a machine, which is no coroutine, asks for them."""

    running: StageProcesses
    door: Door
    runner: asyncio.Runner


@contextmanager
def place_of(stack: Stack) -> Generator[Place]:
    """One worker, two API processes."""
    with asyncio.Runner() as runner:
        processes = stage_processes(stack, "tests.integration.uaip_graphs:app", queue="graphs", apis=APIS)
        running = runner.run(processes.__aenter__())
        try:
            connections = visitors(lambda: running.urls)
            door = runner.run(connections.__aenter__())
            yield Place(running, door, runner)
            runner.run(connections.__aexit__(None, None, None))
        finally:
            runner.run(processes.__aexit__(None, None, None))


class Protocol(RuleBasedStateMachine):
    """Several sessions, each served and specified. A subclass says where."""

    place: Place
    sessions: Bundle[Pair] = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[Pair] = []
        self.restarted = False

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.place.runner.run(work)

    def open(self, document: dict[str, Any], at: int = 0) -> Pair:
        pair = Pair(self.run(self.place.door.open(document["name"], at)), Specification(document))
        self.pairs.append(pair)
        return pair

    @initialize(target=sessions)
    def begin(self) -> Pair:
        return self.open(DOCUMENTS[0])

    @precondition(lambda self: len(self.pairs) < 4)
    @rule(target=sessions, document=st.sampled_from(DOCUMENTS), at=AT)
    def begin_another(self, document: dict[str, Any], at: int) -> Pair:
        return self.open(document, at)

    @rule(pair=sessions, given=ACTIONS, with_key=st.booleans(), at=AT)
    def act(self, pair: Pair, given: dict[str, Any], with_key: bool, at: int) -> None:
        self.run(pair.act(pair.body(given), key=uuid.uuid4().hex if with_key else None, at=at))

    @rule(pair=sessions, given=st.lists(ACTIONS, min_size=2, max_size=5))
    def act_at_once(self, pair: Pair, given: list[dict[str, Any]]) -> None:
        self.run(pair.act_at_once([pair.body(one) for one in given]))

    @rule(data=st.data())
    def act_everywhere(self, data: st.DataObject) -> None:
        """One action in each session, at once."""
        given = [data.draw(ACTIONS) for _ in self.pairs]

        async def all_of_them() -> None:
            acts = (pair.act(pair.body(one)) for pair, one in zip(self.pairs, given, strict=True))
            await asyncio.gather(*acts)

        self.run(all_of_them())

    @rule(pair=sessions, which=WHICH)
    def move_on(self, pair: Pair, which: int) -> None:
        """Where the graph leads, with all that is needed."""
        ways = pair.specified.document["transitions"][pair.specified.stage]
        if ways:
            target = ways[which % len(ways)]["to"]
            needed = pair.specified.document["stages"][target]["prerequisites"]
            self.run(pair.act(pair.body({"action": "state_input", "state_updates": dict.fromkeys(needed, 1)})))
            self.run(pair.act(pair.body({"action": "stage_transition", "stage": target})))

    @rule(pair=sessions, action=st.sampled_from([*KINDS[:3], "fly", "Method_Call", ""]))
    def say_too_little(self, pair: Pair, action: str) -> None:
        self.run(pair.act(pair.body({"action": action})))

    @rule(pair=sessions, members=st.sampled_from(WRONG_TYPES), with_key=st.booleans())
    def send_wrong_types(self, pair: Pair, members: dict[str, Any], with_key: bool) -> None:
        key = uuid.uuid4().hex if with_key else None
        self.run(pair.refused(pair.body(members), 400, key=key))

    @rule(pair=sessions, body=st.sampled_from(NO_JSON))
    def send_no_object(self, pair: Pair, body: bytes) -> None:
        self.run(pair.refused(body, 400))

    @rule(pair=sessions, name=st.sampled_from([None, "", 7, *NO_NAMES, *(one["name"] for one in DOCUMENTS)]))
    def name_another_workflow(self, pair: Pair, name: Any) -> None:
        if name != pair.visit.workflow:
            body = {"workflow_name": name, "action": "handshake"}
            self.run(pair.refused(body, 404 if name and isinstance(name, str) else 400))

    @rule(pair=sessions, which=WHICH, at=AT)
    def send_again(self, pair: Pair, which: int, at: int) -> None:
        if pair.sent:
            self.run(pair.send_again(pair.sent[which % len(pair.sent)], at))

    @rule(pair=sessions)
    def pause(self, pair: Pair) -> None:
        self.run(pair.pause())

    @rule(pair=sessions)
    def resume(self, pair: Pair) -> None:
        self.run(pair.resume())

    @precondition(lambda self: len(self.pairs) > 1)
    @rule(pair=consumes(sessions), by_client=st.booleans())
    def terminate(self, pair: Pair, by_client: bool) -> None:
        """Afterwards it is not found, but for what is asked again."""
        if by_client:
            self.run(pair.act(pair.body({"action": "terminate_session", "reason": "bought"})))
        else:
            self.run(pair.terminate())
        self.run(pair.act(pair.body({"action": "handshake"})))
        status = 404 if pair.specified.ended else 400  # a paused session has not ended yet
        self.run(pair.refused(pair.body({"action": 7}), status, key=uuid.uuid4().hex))
        for sent in pair.sent[-1:]:
            self.run(pair.send_again(sent, 0))

    @precondition(lambda self: len(self.pairs) > 1 and not self.restarted)
    @rule()
    def kill_the_worker(self) -> None:
        self.restarted = True
        self.run(self.place.running.replace_worker())

    @invariant()
    def every_session_is_as_specified(self) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(pair.check() for pair in self.pairs))

        self.run(all_of_them())

    def teardown(self) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(pair.check_history() for pair in self.pairs))

        self.run(all_of_them())


def test_the_protocol_is_as_specified(stack: Stack) -> None:
    """Whatever is sent in whatever order, each session does what the specification says, and none touches another."""
    with place_of(stack) as found:

        class Served(Protocol):
            place = found

        run_machine(
            Served,
            settings=settings(
                max_examples=max(8, scaled(150)),
                stateful_step_count=25,
                deadline=None,
                phases=[Phase.reuse, Phase.generate],  # to shrink what took seconds at real servers takes minutes
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
