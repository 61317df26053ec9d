"""A task's schemas, options and what carries it out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from jsonschema import Draft202012Validator

from perdure import agent
from perdure.uaip import Retry, State, TaskContext, stage, task, workflow
from perdure.uaip.bound_task import AgentTask, FunctionTask
from perdure.uaip.definition import TaskSpec
from perdure.upp.json_value import JSONObject
from perdure.upp.providers.scripted import scripted
from perdure.upp.tools import ToolContext
from tests.unit.uaip.stage_store import DEFINITION, Store


def spec(stage_name: str, name: str) -> TaskSpec:
    found = DEFINITION.stage(stage_name)
    assert found is not None
    made = found.task(name)
    assert made is not None
    return made


def test_parameters_are_a_closed_object_without_self_state_and_context() -> None:
    assert spec("select", "add").parameters == {
        "type": "object",
        "properties": {
            "sku": {"type": "string"},
            "quantity": {"type": "integer", "minimum": 1, "default": 1},
        },
        "required": ["sku"],
        "additionalProperties": False,
    }
    assert spec("checkout", "pay").parameters["properties"] == {}


def test_descriptions_of_parameters_come_from_the_docstring() -> None:
    properties = spec("browse", "search").parameters["properties"]
    assert properties == {
        "query": {"type": "string", "description": "words"},
        "limit": {"type": "integer", "description": "at most so many", "default": 3},
    }


def test_returns_is_what_the_annotation_says() -> None:
    assert spec("select", "add").returns == {"type": "integer"}
    assert spec("select", "fail").returns == {"type": "null"}
    returns = spec("browse", "search").returns
    assert returns is not None
    assert returns["items"] == {"$ref": "#/$defs/Product"}


def test_every_schema_is_of_2020_12() -> None:
    for item in DEFINITION.stages:
        for made in item.tasks:
            Draft202012Validator.check_schema(made.parameters)
            Draft202012Validator.check_schema(made.returns or {})


def test_options_are_in_the_spec() -> None:
    @stage
    class Stage:
        @task(name="slow", description="Slow.", effect="idempotent", timeout=timedelta(minutes=1), retry=Retry(2))
        def method(self) -> None: ...

        @task(approval="human", approval_timeout=timedelta(hours=1))
        def asked(self): ...  # type: ignore[no-untyped-def]

    @workflow
    class Flow:
        only = Stage

    slow, asked = Flow.definition.stages[0].tasks
    assert (slow.name, slow.description, slow.effect, slow.timeout_s) == ("slow", "Slow.", "idempotent", 60.0)
    assert (slow.retry.attempts, slow.retry.wait_s, slow.retry.longest_s) == (2, 1.0, 60.0)
    assert (asked.approval, asked.approval_timeout_s, asked.effect, asked.returns) == (
        "human",
        3600.0,
        "at_most_once",
        None,
    )


def test_tasks_are_found_by_stage_and_name() -> None:
    """One name may stand in two stages."""
    assert isinstance(Store.task("select", "add"), FunctionTask)
    assert Store.task("browse", "add") is None


def test_a_task_of_a_class_that_is_inherited_from() -> None:
    class Looking:
        @task
        def look(self) -> str:
            return type(self).__name__

        @task
        def hidden(self) -> None: ...

    @stage
    class Inside(Looking):
        hidden = None  # pyright: ignore[reportAssignmentType] - takes a task away

    @workflow
    class Flow:
        inside = Inside

    look = Flow.task("inside", "look")
    assert isinstance(look, FunctionTask)
    assert look.callable()() == "Inside"
    assert Flow.task("inside", "hidden") is None


def test_types_of_a_function_around_the_class_are_found() -> None:
    """Annotations are texts here, and no module knows the type."""
    from pydantic import BaseModel

    class Local(BaseModel):
        x: int

    @workflow
    class Flow:
        @stage
        class Only:
            @task
            def take(self, given: Local, tool: ToolContext, state: State, context: TaskContext) -> Local:
                return given

    schema = Flow.definition.stages[0].tasks[0].parameters
    assert schema["properties"] == {"given": {"$ref": "#/$defs/Local"}}


def test_an_agent_is_a_task_by_declaration() -> None:
    coder = agent(name="coder", model=scripted(["done"]), description="Codes.")

    @stage
    class Review:
        @task(agent=coder, save_as="review.text", timeout=60)
        def review(self, task: str, strict: bool = False):
            """Have it reviewed."""

        @task(agent=coder)
        def judge(self, text: str): ...

    @workflow
    class Flow:
        review = Review

    review, judge = Flow.task("review", "review"), Flow.task("review", "judge")
    assert isinstance(review, AgentTask)
    assert isinstance(judge, AgentTask)
    assert (review.spec.kind, review.spec.agent, review.spec.effect) == ("agent", "coder", "idempotent")
    assert (review.spec.save_as, review.spec.timeout_s, review.spec.returns) == (
        "review.text",
        60.0,
        {"type": "string"},
    )
    assert review.agent is coder
    assert review.input({"task": "Look at it.", "strict": True}) == "Look at it."
    assert judge.input({"text": "x"}) == '{"text":"x"}'
    assert review.tool.description == "Have it reviewed."


def test_an_agents_structure_is_what_its_task_returns() -> None:
    schema: JSONObject = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    referee = agent(name="referee", model=scripted([""]), structure=schema)

    @workflow
    class Flow:
        @stage
        class Only:
            @task(agent=referee)
            def judge(self, text: str) -> object: ...

    assert Flow.definition.stages[0].tasks[0].returns == schema


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """As for any module."""
    import perdure.uaip

    assert {"workflow", "stage", "task", "to", "State"} <= set(dir(perdure.uaip))
    with pytest.raises(AttributeError, match="no attribute 'stages_of'"):
        getattr(perdure.uaip, "stages_of")  # noqa: B009 - what is tested
