"""What a workflow's definition is refused for, when it is made and in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure import agent
from perdure.errors import InvalidInput
from perdure.uaip import Retry, State, Workflow, stage, task, to, workflow
from perdure.upp.providers.scripted import scripted
from tests.unit.uaip.stage_store import DEFINITION, Store


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as caught:
        make()
    return str(caught.value)


@stage
class Plain:
    @task
    def look(self) -> str:
        return ""


@stage
class Other:
    pass


@stage(prerequisites=["cart.items"])
class Needy:
    pass


def test_names_are_taken_from_the_code() -> None:
    """The workflow's from its class, stages' from where it holds them, tasks' from their methods."""
    assert (Store.name, DEFINITION.stage_names) == ("store", ("browse", "select", "checkout", "done"))
    assert [item.name for item in DEFINITION.stages[1].tasks] == ["add", "fail"]


def test_descriptions_are_given_or_read() -> None:
    """What is given counts; else the docstring's first paragraph."""
    assert DEFINITION.description == "Buy things."
    assert [item.description for item in DEFINITION.stages] == ["Look around.", "Fill the cart.", "", ""]


def test_the_first_stage_is_the_initial_one_unless_another_is_named() -> None:
    @workflow
    class Named:
        plain = Plain
        other = Other
        initial_stage = Other
        transitions = {"other": ["plain"]}

    assert DEFINITION.initial_stage == "browse"
    assert Named.definition.initial_stage == "other"


def test_an_edge_says_what_is_kept() -> None:
    @workflow
    class Kept:
        plain = Plain
        other = Other
        transitions = {plain: [to(other, keep=["a", "b"]), to("plain", keep="none")], other: [Plain]}

    edges = [[(edge.target, edge.keep) for edge in item.transitions] for item in Kept.definition.stages]
    assert edges == [[("other", ("a", "b")), ("plain", ())], [("plain", None)]]


def test_a_stage_and_its_tasks_stay_what_they_are() -> None:
    """So that they can be tested like any class."""
    assert Plain().look() == ""


def test_a_transition_to_an_unknown_stage() -> None:
    def by_name() -> None:
        @workflow
        class Bad:
            plain = Plain
            transitions = {plain: ["plane"]}

    def by_class() -> None:
        @workflow
        class Bad:
            plain = Plain
            transitions = {plain: [Other]}

    assert refusal(by_name) == (
        "workflow 'bad': transitions from 'plain' to 'plane': the workflow has no such stage; it has plain"
    )
    assert "to Other: the workflow has no such stage" in refusal(by_class)


def test_a_transition_from_an_unknown_stage() -> None:
    def make() -> None:
        @workflow
        class Bad:
            plain = Plain
            transitions = {Other: [plain]}

    assert "transitions from Other: the workflow has no such stage; it has plain" in refusal(make)


def test_an_unreachable_stage() -> None:
    def make() -> None:
        @workflow
        class Bad:
            plain = Plain
            other = Other
            needy = Needy
            transitions = {other: [needy, other], needy: [other]}

    assert "no way leads from 'plain' to 'other', 'needy'; add a transition" in refusal(make)


@pytest.mark.parametrize("name", ["transition_stage", "provide_state", "terminate_session"])
def test_a_reserved_task_name(name: str) -> None:
    def make() -> None:
        @stage
        class Bad:
            @task(name=name)
            def look(self) -> None: ...

        @workflow
        class Flow:
            bad = Bad

    assert f"stage 'bad': no task can be named '{name}'" in refusal(make)


@pytest.mark.parametrize("name", ["", "look up", "a" * 65, "löschen"])
def test_a_task_name_that_no_model_could_call(name: str) -> None:
    def make() -> None:
        @stage
        class Bad:
            @task(name=name)
            def look(self) -> None: ...

        @workflow
        class Flow:
            bad = Bad

    assert "must be 1 to 64 letters, digits, '_' or '-'" in refusal(make)


@pytest.mark.parametrize("name", ["", " store", "a/b", "a\nb", "..", "x" * 129])
def test_a_workflow_name_that_no_address_could_have(name: str) -> None:
    def make() -> None:
        @workflow(name=name)
        class Flow:
            plain = Plain

    assert refusal(make).startswith("workflow ")


def test_a_task_outside_a_stage() -> None:
    def alone() -> None:
        @task
        def look(self: object) -> None: ...

    def in_the_workflow() -> None:
        @workflow
        class Flow:
            plain = Plain

            @task
            def look(self) -> None: ...

    def in_a_plain_class() -> None:
        @workflow
        class Flow:
            class Browse:
                @task
                def look(self) -> None: ...

    assert "look is outside a stage; make it a method of a class with @stage above it" in refusal(alone)
    assert "task 'look' is outside a stage" in refusal(in_the_workflow)
    assert "Browse has tasks but is no stage; put @stage above it" in refusal(in_a_plain_class)


def test_two_tasks_of_one_name() -> None:
    def as_methods() -> None:
        @stage
        class Bad:
            @task
            def look(self) -> None: ...  # pyright: ignore[reportRedeclaration]

            @task
            def look(self) -> int: ...  # noqa: F811 - what is tested

    def by_option() -> None:
        @stage
        class Bad:
            @task
            def look(self) -> None: ...

            @task(name="look")
            def see(self) -> None: ...

    assert "two tasks are named" in refusal(as_methods)
    assert "Bad: two tasks are named 'look'; names must differ" in refusal(by_option)


def test_two_stages_of_one_name() -> None:
    def nested() -> None:
        @workflow
        class Flow:
            @stage
            class Browse:  # pyright: ignore[reportRedeclaration]
                pass

            @stage
            class Browse:  # noqa: F811 - what is tested
                pass

    def by_option() -> None:
        @stage(name="plain")
        class Same:
            pass

        @workflow
        class Flow:
            plain = Plain
            same = Same

    def one_class_twice() -> None:
        @workflow
        class Flow:
            plain = Plain
            again = Plain

    assert "two stages are named" in refusal(nested)
    assert "two stages are named 'plain'; names must differ" in refusal(by_option)
    assert "'plain' and 'again' are one stage" in refusal(one_class_twice)


def test_two_transitions_of_one_pair() -> None:
    def targets() -> None:
        @workflow
        class Flow:
            plain = Plain
            transitions = {plain: [plain, to(plain, keep="none")]}

    def sources() -> None:
        @workflow
        class Flow:
            plain = Plain
            transitions = {plain: [plain], "plain": []}

    assert "two transitions lead to 'plain'" in refusal(targets)
    assert "transitions has 'plain' twice, as a class and as a name" in refusal(sources)


def test_a_stage_that_could_never_be_entered() -> None:
    """Its prerequisite is dropped on the way to it."""

    def make() -> None:
        @workflow
        class Flow:
            plain = Plain
            needy = Needy
            transitions = {plain: [to(needy, keep=["other"])]}

    assert "from 'plain' to 'needy' can never be taken: 'needy' needs cart.items" in refusal(make)


def test_something_else_in_a_workflow() -> None:
    """Most likely a slip of the pen."""

    def make() -> None:
        @workflow
        class Flow:
            plain = Plain
            transistions = {plain: [plain]}

    assert "'transistions' is no stage" in refusal(make)


def test_a_workflow_without_a_stage() -> None:
    def make() -> None:
        @workflow
        class Flow:
            pass

    assert "has no stage; put classes with @stage into it" in refusal(make)


@pytest.mark.parametrize("key", ["", "events", "perdure.x", "a\0b", "x" * 257])
def test_a_key_that_the_state_cannot_have(key: str) -> None:
    def prerequisite() -> None:
        @stage(prerequisites=[key])
        class Bad:
            pass

        @workflow
        class Flow:
            bad = Bad

    def input_of_clients() -> None:
        @workflow(inputs=[key])
        class Flow:
            plain = Plain

    assert "prerequisites: key" in refusal(prerequisite)
    assert "inputs: key" in refusal(input_of_clients)


def test_prerequisites_are_checked_where_they_are_written() -> None:
    """A string would be a list of its letters."""

    def make() -> None:
        @stage(prerequisites="cart.items")
        class Bad:
            pass

    assert "prerequisites must be a list of keys of the state, as ['cart.items']" in refusal(make)


def test_a_stage_that_cannot_be_made() -> None:
    def make() -> None:
        @stage
        class Bad:
            def __init__(self, database: object) -> None:
                self.database = database

    assert "a stage is made without arguments" in refusal(make)


@dataclass(frozen=True)
class BadTask:
    """A task that is refused.

    Attributes:
        make: declares it.
        says: in the error.
    """

    make: Callable[[], object]
    says: str


class NoSchema:
    pass


def declare(**options: object) -> Callable[[], object]:
    def make() -> object:
        @stage
        class Bad:
            @task(**options)  # pyright: ignore[reportCallIssue, reportArgumentType] - wrong on purpose
            def look(self, state: State) -> None: ...

        @workflow
        class Flow:
            bad = Bad

        return Flow

    return make


def static() -> None:
    @stage
    class Bad:
        @staticmethod
        @task
        def look(text: str) -> None: ...


def on_static() -> None:
    @stage
    class Bad:
        @task  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
        @staticmethod
        def look(text: str) -> None: ...


def without_annotation() -> None:
    @stage
    class Bad:
        @task  # pyright: ignore[reportUnknownArgumentType]
        def look(self, text) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]


def without_schema() -> None:
    @stage
    class Bad:
        @task
        def look(self) -> NoSchema: ...


def generator() -> None:
    @stage
    class Bad:
        @task
        def look(self) -> object:
            yield 1


CODER = agent(name="coder", model=scripted(["done"]))
BAD_TASKS = {
    "effect": BadTask(declare(effect="twice"), "effect 'twice' must be one of none, idempotent, at_most_once, once"),
    "timeout": BadTask(declare(timeout=0), "timeout 0 must be seconds or a timedelta above zero"),
    "timeout's type": BadTask(declare(timeout="3"), "timeout '3' must be seconds or a timedelta above zero"),
    "retry": BadTask(declare(effect="none", retry=0), "attempts is 0; it must be 1 to 100"),
    "retry's type": BadTask(declare(effect="none", retry="2"), "retry '2' must be the number of tries, or Retry(...)"),
    "retry of an effect": BadTask(declare(retry=2), "has effect 'at_most_once', so it cannot be tried again"),
    "approval_timeout": BadTask(declare(approval_timeout=timedelta(1)), 'approval_timeout needs approval="human"'),
    "save_as": BadTask(declare(save_as="x"), "save_as is for tasks that are agents; write state.set('x', ...)"),
    "agent": BadTask(declare(agent="coder"), "agent is a str; it must come from agent(...)"),
    "agent's name": BadTask(declare(agent=agent(model=scripted([""]))), "its agent needs a name"),
    "agent's effect": BadTask(declare(agent=CODER, effect="none"), "leave effect and retry out"),
    "agent's state": BadTask(declare(agent=CODER), "is an agent's and is never called; take state away"),
    "static": BadTask(static, "must be a plain method with self"),
    "on static": BadTask(on_static, "take @staticmethod or @classmethod away"),
    "no annotation": BadTask(without_annotation, "parameter 'text' has no annotation"),
    "no schema": BadTask(without_schema, "has no JSON Schema"),
    "generator": BadTask(generator, "is a generator; return a list instead"),
}


@pytest.mark.parametrize("name", BAD_TASKS)
def test_a_task_that_is_refused(name: str) -> None:
    assert BAD_TASKS[name].says in refusal(BAD_TASKS[name].make)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(0),
        lambda: Retry(2, wait=timedelta(0)),
        lambda: Retry(2, wait=timedelta(minutes=2)),
        lambda: Retry(2, factor=0.5),
    ],
)
def test_a_retry_that_makes_no_sense(make: Callable[[], Retry]) -> None:
    assert refusal(make).startswith("Retry: ")


def test_a_workflow_is_made_of_a_class_and_a_stage_too() -> None:
    made: list[Any] = [workflow, stage]
    assert "@workflow takes a class" in refusal(lambda: made[0](7))
    assert "@stage takes a class" in refusal(lambda: made[1](len))


def test_options_are_in_the_definition() -> None:
    @workflow(name="my flow", ttl=timedelta(hours=1), inputs=["user.email"])
    class Flow:
        plain = Plain

    assert isinstance(Flow, Workflow)
    assert (Flow.definition.name, Flow.definition.ttl_s, Flow.definition.inputs) == ("my flow", 3600.0, ("user.email",))
    assert re.fullmatch("[0-9a-f]{64}", Flow.definition.sha256)
