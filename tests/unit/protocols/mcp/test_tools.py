"""Which tools an MCP client sees, and what it is told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp_types import Tool

from perdure.protocols.mcp.tools import offered, tools
from perdure.uaip import State, stage, task, workflow
from perdure.uaip.session import SessionStatus, StageSession, begin
from tests.unit.uaip.stage_store import DEFINITION, NOON_MS, SESSION, store_session


@workflow(inputs=["who"])
class Closed:
    @stage
    class Ask:
        @task(effect="none")
        def look(self) -> str:
            return "nothing"

        @task(effect="idempotent")
        def mark(self, state: State) -> None: ...

        @task
        def send(self) -> None: ...

    @stage(prerequisites=["who", "what"])
    class Tell: ...

    @stage(prerequisites=["what"])
    class Leave: ...

    transitions = {Ask: [Tell, Leave]}


def at(stage: str, *keys: str) -> StageSession:
    return replace(store_session(), stage=stage, sizes=dict.fromkeys(keys, 1))


def named(found: list[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in found}


@pytest.mark.parametrize(
    ("session", "names"),
    [
        (at("browse"), ["search", "transition_stage", "terminate_session"]),
        (at("select"), ["add", "fail", "transition_stage", "terminate_session", "provide_state"]),
        (at("select", "cart.items", "user.email"), ["add", "fail", "transition_stage", "terminate_session"]),
        (at("done"), ["receipt", "terminate_session"]),
        (replace(at("browse"), status=SessionStatus.PAUSED), ["search", "transition_stage", "terminate_session"]),
        (replace(at("browse"), status=SessionStatus.TERMINATED), []),
        (replace(at("browse"), status=SessionStatus.EXPIRED), []),
    ],
    ids=["first", "lacking", "complete", "terminal", "paused", "terminated", "expired"],
)
def test_the_tools_are_those_of_the_stage(session: StageSession, names: list[str]) -> None:
    assert [tool.name for tool in tools(DEFINITION, session)] == names


def test_a_task_is_listed_with_its_own_schema() -> None:
    search = named(tools(DEFINITION, at("browse")))["search"]
    task = DEFINITION.stages[0].tasks[0]
    assert (search.input_schema, search.description) == (task.parameters, task.description)


def test_what_is_asked_for_is_what_clients_may_write() -> None:
    """`what` is a task's to write; a key that is there is not asked for again."""
    start = begin(Closed.definition, SESSION, NOON_MS)
    asked = named(tools(Closed.definition, start))["provide_state"]
    assert list(asked.input_schema["properties"]) == ["who"]
    assert "required" not in asked.input_schema
    assert asked.description == "Provide what the next stages need: tell needs who"
    assert "provide_state" not in named(tools(Closed.definition, replace(start, sizes={"who": 1})))


def test_the_effect_class_is_told_as_hints() -> None:
    found = named(tools(Closed.definition, begin(Closed.definition, SESSION, NOON_MS)))
    told = {name: tool.annotations for name, tool in found.items()}
    read_only = {name for name, hints in told.items() if hints is not None and hints.read_only_hint}
    idempotent = {name for name, hints in told.items() if hints is not None and hints.idempotent_hint}
    assert read_only == {"look"}
    assert idempotent == {"look", "mark", "provide_state", "terminate_session"}


@given(
    st.sampled_from(DEFINITION.stage_names), st.sets(st.sampled_from(["cart.items", "user.email"])),
    st.sampled_from(DEFINITION.stage_names), st.sets(st.sampled_from(["cart.items", "user.email"])),
)  # fmt: skip
def test_two_listings_are_equal_if_and_only_if_what_they_offer_is(
    one: str, has: set[str], other: str, has_too: set[str]
) -> None:
    """A change is told where a client would list something else."""
    first, second = at(one, *sorted(has)), at(other, *sorted(has_too))
    same = tools(DEFINITION, first) == tools(DEFINITION, second)
    assert (offered(DEFINITION, first) == offered(DEFINITION, second)) is same


@pytest.mark.parametrize("stage_name", DEFINITION.stage_names)
def test_every_schema_is_an_objects(stage_name: str) -> None:
    for tool in tools(DEFINITION, at(stage_name)):
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"
