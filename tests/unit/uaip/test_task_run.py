"""One call of a function task."""

from __future__ import annotations

import asyncio
import threading
from datetime import date
from typing import Any

import pytest

from perdure.uaip import State, TaskContext, stage, task, workflow
from perdure.uaip.arguments import with_defaults
from perdure.uaip.bound_task import FunctionTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.refusal import Reason
from perdure.uaip.state import StateDiff
from perdure.uaip.state_change import MAX_STATE_BYTES
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uaip.task_run import finish, run_function
from perdure.upp.json_value import JSONObject

CONTEXT = TaskContext(call_id="a1", idempotency_key="k1", attempt=1, session_id="s1")


@workflow
class Flow:
    @stage
    class Only:
        def __init__(self) -> None:
            self.seen = 0

        @task
        def count(self, quantity: int, note: str = "none", ratio: float = 0.5) -> list[object]:
            self.seen += 1
            return [quantity, note, ratio, self.seen]

        @task
        async def write(self, state: State, key: str) -> None:
            state.set(key, "written")
            state.get("list").append(1)

        @task
        def fail(self, state: State) -> None:
            state.set("spoilt", 1)
            raise LookupError("not there")

        @task(timeout=0.05)
        async def dawdle(self, state: State) -> None:
            state.set("late", 1)
            await asyncio.sleep(60)

        @task
        def leave(self) -> None:
            raise SystemExit(3)

        @task
        def lie(self) -> int:
            return "seven"  # pyright: ignore[reportReturnType] - what is tested

        @task
        def hold(self) -> object:
            return threading.Lock()

        @task
        def fill(self, state: State) -> None:
            state.set("all", "x" * MAX_STATE_BYTES)

        @task
        def on(self, day: date) -> str:
            return day.isoformat()

        @task
        def who(self, context: TaskContext) -> list[str]:
            return [context.session_id, context.call_id, context.idempotency_key]


def found(name: str) -> FunctionTask:
    made = Flow.task("only", name)
    assert isinstance(made, FunctionTask)
    return made


async def run(name: str, state: State | None = None, pinned: TaskSpec | None = None, **arguments: Any) -> TaskRun:
    made = found(name)
    return await run_function(made, pinned or made.spec, arguments, state or State({"list": []}, version=4), CONTEXT)


async def test_defaults_are_filled_in() -> None:
    """By Python; each call has a stage of its own."""
    assert (await run("count", quantity=2)).result == [2, "none", 0.5, 1]
    assert (await run("count", quantity=2, note="x", ratio=2)).result == [2, "x", 2, 1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "$: 'quantity' is a required property"),
        ({"quantity": "2"}, "$.quantity: '2' is not of type 'integer'"),
        ({"quantity": True}, "$.quantity: True is not of type 'integer'"),
        ({"quantity": 2.5}, "$.quantity: 2.5 is not of type 'integer'"),
        ({"quantity": None}, "$.quantity: None is not of type 'integer'"),
        ({"quantity": 1, "note": 7}, "$.note: 7 is not of type 'string'"),
        ({"quantity": 1, "zz": 1}, "Additional properties are not allowed ('zz' was unexpected)"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], says: str) -> None:
    """No JSON type is turned into another, and nothing is run."""
    made = await run("count", **arguments)
    assert made.refusal is not None
    assert (made.refusal.reason, made.refusal.status) == (Reason.INVALID_ARGUMENTS, 422)
    assert says in made.refusal.detail
    assert made.refusal.detail.startswith("Invalid arguments for task 'count': ")
    assert made.outcome.refusal == made.refusal
    assert made.outcome.change is None


async def test_what_a_schema_cannot_say_is_refused_too() -> None:
    made = await run("on", day="yesterday")
    assert made.refusal is not None
    assert "day: " in made.refusal.detail
    assert (await run("on", day="2025-02-03")).result == "2025-02-03"


async def test_the_pinned_schema_counts() -> None:
    """A redeploy may have another."""
    pinned = TaskSpec("count", "", {"type": "object", "properties": {"quantity": {"maximum": 3}}})
    assert (await run("count", pinned=pinned, quantity=4)).refusal is not None
    assert (await run("count", pinned=pinned, quantity=3)).refusal is None


async def test_the_state_is_changed_by_what_returns() -> None:
    made = await run("write", key="a.b")
    assert made == TaskRun(None, StateDiff(4, {"list": [1], "a.b": "written"}))
    change = made.outcome.change
    assert change is not None
    assert (change.version, list(change.sizes)) == (4, ["list", "a.b"])


async def test_the_state_is_not_changed_by_what_raises() -> None:
    made = await run("fail")
    assert made == TaskRun(error=TaskError("LookupError", "not there"))
    assert made.outcome.change is None


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("dawdle", "TimeoutError", "task 'dawdle' timed out after 0.05 s"),
        ("leave", "RuntimeError", "task 'leave' raised SystemExit: 3"),
        ("lie", "InvalidInput", "task 'lie' returned what its definition does not allow: $: 'seven' is not of type"),
        ("hold", "TypeError", "has no JSON form"),
        ("fill", "StateTooLarge", "State too large: it would have 1,0"),
    ],
)
async def test_whatever_a_task_does_there_is_an_answer(name: str, error: str, says: str) -> None:
    made = await run(name)
    assert made.error is not None
    assert made.error.type == error
    assert says in made.error.message
    assert made.diff.is_empty


async def test_the_context_says_whom_a_task_serves() -> None:
    assert (await run("who")).result == ["s1", "a1", "k1"]


def test_what_is_to_be_saved_is_in_the_state() -> None:
    pinned = TaskSpec("review", "", {"type": "object"}, kind="agent", save_as="review.text")
    assert finish(pinned, "fine", State(version=2)) == TaskRun("fine", StateDiff(2, {"review.text": "fine"}))


def test_defaults_of_a_schema() -> None:
    """For tasks that no Python function fills them in for."""
    schema: JSONObject = {"type": "object", "properties": {"a": {"default": 1}, "b": {"default": 2}, "c": {}}}
    assert with_defaults(schema, {"b": 3}) == {"a": 1, "b": 3}
