"""Plans: what a model wrote is read or refused, steps come after what they depend on, and a new plan fits the old."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perdure.uap.plan_answer import plan_from_text, plan_schema, read_plan
from perdure.uap.plan_steps import PlanStatus, PlanStep, order_steps, replanned
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_schema import check_schema
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads
from perdure.upp.providers._strict_schema import strict_problem
from tests.unit.upp.strategies import json_objects, json_values, texts

plan_steps = st.builds(
    PlanStep, texts(), texts(), st.none() | texts(), st.lists(texts(), max_size=3), st.sampled_from(PlanStatus)
)


def step(id_: str, *depends_on: str, status: PlanStatus = PlanStatus.PENDING) -> PlanStep:
    return PlanStep(id_, f"do {id_}", depends_on=[*depends_on], status=status)


def completed(id_: str, *depends_on: str) -> PlanStep:
    return step(id_, *depends_on, status=PlanStatus.COMPLETED)


def failed(id_: str, *depends_on: str) -> PlanStep:
    return step(id_, *depends_on, status=PlanStatus.FAILED)


def ids(steps: list[PlanStep]) -> list[str]:
    return [each.id for each in steps]


def written(*steps: object) -> JSONObject:
    return {"steps": cast("list[JSONValue]", [*steps])}


@st.composite
def plans(draw: st.DrawFn, prefix: str = "") -> list[PlanStep]:
    """Plans that can be run, their steps in any order."""
    names = [f"{prefix}{number}" for number in range(draw(st.integers(0, 8)))]
    earlier = [
        draw(st.lists(st.sampled_from(names[:place]), max_size=3)) if place else [] for place in range(len(names))
    ]
    return draw(st.permutations([step(name, *others) for name, others in zip(names, earlier, strict=True)]))


@st.composite
def half_run(draw: st.DrawFn) -> list[PlanStep]:
    """Plans of which some steps, each after what it depends on, have run, and the last of them failed."""
    order = order_steps(draw(plans()))
    done = draw(st.integers(0, len(order)))
    for each in order[:done]:
        each.status = PlanStatus.COMPLETED
    if done:
        order[done - 1].status = PlanStatus.FAILED
    return order


def refuses(use: Callable[[], object], *named: str) -> None:
    with pytest.raises(UPPError) as refused:
        use()
    assert refused.value.code == ErrorCode.INVALID_RESPONSE
    assert [name for name in named if name not in refused.value.message] == []


@given(plan_steps)
def test_a_step_survives_json(given_step: PlanStep) -> None:
    assert PlanStep.from_json(loads(dumps(given_step.to_json()))) == given_step


def test_the_json_of_a_step_is_as_the_specification_has_it() -> None:
    assert PlanStep("s1", "look", "Read", ["s0"], PlanStatus.IN_PROGRESS).to_json() == {
        "id": "s1",
        "description": "look",
        "tool": "Read",
        "dependsOn": ["s0"],
        "status": "in_progress",
    }
    assert step("s1").to_json() == {"id": "s1", "description": "do s1", "dependsOn": [], "status": "pending"}


def test_the_json_of_a_step_shares_nothing_with_it() -> None:
    own = step("b", "a")
    cast("list[str]", own.to_json()["dependsOn"]).append("c")
    assert own.depends_on == ["a"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 1),
        ("id", None),
        ("description", None),
        ("tool", 1),
        ("dependsOn", "a"),
        ("dependsOn", [1]),
        ("status", None),
        ("status", "done"),
    ],
)
def test_json_that_is_no_step_is_refused(field: str, value: JSONValue) -> None:
    with pytest.raises(UPPError, match=field) as refused:
        PlanStep.from_json({**step("a").to_json(), field: value})
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_plan_is_read_in_the_models_order() -> None:
    data = written(
        {"id": "b", "description": "second", "tool": None, "dependsOn": ["a"]},
        {"id": "a", "description": "first", "tool": "Read", "dependsOn": []},
    )
    assert read_plan(data, 10) == [PlanStep("b", "second", None, ["a"]), PlanStep("a", "first", "Read")]


def test_what_is_missing_is_filled_in() -> None:
    (only,) = read_plan(written({"description": "d"}), 10)
    assert (only.id, only.tool, only.depends_on, only.status) == ("step-1", None, [], PlanStatus.PENDING)


def test_what_is_null_or_empty_is_as_if_missing() -> None:
    item = {"id": "", "description": "d", "tool": "", "dependsOn": None, "status": None}
    assert read_plan(written(item), 10) == [PlanStep("step-1", "d")]


def test_missing_ids_come_from_their_places_and_differ() -> None:
    """Also where such an id stands in the plan already. Never drawn: a replay must get the same."""
    data = written({"description": "1"}, {"id": "step-1", "description": "2"}, {"description": "3"})
    assert ids(read_plan(data, 10)) == ["step-1-2", "step-1", "step-3"]


def test_no_step_of_a_new_plan_has_run() -> None:
    """Whatever the model claims, so that no step is left out."""
    items = [{"id": status, "description": "d", "status": status} for status in [*PlanStatus, "skipped"]]
    assert {each.status for each in read_plan(written(*items), 10)} == {PlanStatus.PENDING}


def test_ids_may_be_numbers() -> None:
    data = written({"id": 1, "description": "d"}, {"id": "2", "description": "d", "dependsOn": [1]})
    assert read_plan(data, 10) == [PlanStep("1", "d"), PlanStep("2", "d", None, ["1"])]


def test_a_plan_that_is_too_long_is_cut() -> None:
    data = written(*({"id": str(number), "description": "d"} for number in range(5)))
    assert ids(read_plan(data, 3)) == ["0", "1", "2"]


def test_dependencies_on_cut_steps_are_dropped_and_no_others() -> None:
    data = written(
        {"id": "a", "description": "d", "dependsOn": ["c", "unknown", "b"]},
        {"id": "b", "description": "d", "dependsOn": ["a"]},
        {"id": "c", "description": "d"},
        "not even a step",
    )
    assert [each.depends_on for each in read_plan(data, 2)] == [["unknown", "b"], ["a"]]


def test_a_dependency_on_a_step_that_remains_is_kept_though_another_of_its_id_was_cut() -> None:
    data = written(*({"id": name, "description": "d", "dependsOn": ["a"]} for name in ("a", "b", "a")))
    assert read_plan(data, 2)[1].depends_on == ["a"]


@given(plans(), st.integers(1, 9))
def test_a_plan_that_was_cut_can_still_be_ordered(given_plan: list[PlanStep], max_steps: int) -> None:
    cut = read_plan(written(*(each.to_json() for each in given_plan)), max_steps)
    assert ids(cut) == ids(given_plan)[:max_steps]
    assert sorted(ids(order_steps(cut))) == sorted(ids(cut))


@given(plans())
def test_a_plan_within_its_size_is_read_as_it_is(given_plan: list[PlanStep]) -> None:
    assert read_plan(written(*(each.to_json() for each in given_plan)), 8) == given_plan


def test_a_plan_may_be_empty() -> None:
    assert read_plan(written(), 10) == []


@pytest.mark.parametrize("data", [None, [], "steps", {}, {"steps": None}, {"steps": {}}, {"plan": []}])
def test_data_without_steps_is_refused(data: JSONValue) -> None:
    refuses(lambda: read_plan(data, 10), '"steps"')


BAD_STEPS: dict[str, JSONValue] = {
    "steps[1] must be an object": "x",
    "steps[1].description": {"id": "b"},
    "steps[1].tool": {"id": "b", "description": "d", "tool": 1},
    "steps[1].dependsOn": {"id": "b", "description": "d", "dependsOn": "a"},
    "steps[1]: an id must be a string": {"id": ["b"], "description": "d"},
    "steps[1]: an id must": {"id": "b", "description": "d", "dependsOn": [True]},
}


@pytest.mark.parametrize("problem", BAD_STEPS)
def test_a_step_that_is_none_is_refused_with_its_place(problem: str) -> None:
    refuses(lambda: read_plan(written({"id": "a", "description": "d"}, BAD_STEPS[problem]), 10), problem)


def test_two_steps_of_one_id_are_refused() -> None:
    twice = [{"id": name, "description": "d"} for name in ("a", "b", "a", "c")]
    refuses(lambda: read_plan(written(*twice), 10), "'a'")
    assert ids(read_plan(written(*twice), 2)) == ["a", "b"]


@given(
    json_values()
    | st.builds(written, json_values(), st.fixed_dictionaries({"id": json_values(), "description": texts()})),
    st.integers(1, 3),
)
def test_data_of_any_kind_is_read_or_refused(data: JSONValue, max_steps: int) -> None:
    before = copy.deepcopy(data)
    try:
        steps = read_plan(data, max_steps)
    except UPPError as error:
        assert error.code == ErrorCode.INVALID_RESPONSE  # noqa: PT017  # either outcome is right
    else:
        assert len(steps) <= max_steps
    assert dumps(data) == dumps(before)


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": []}',
        'Here is the plan: {"steps": []}',
        '```json\n{"steps": []}\n```\nThen {"steps": [1]}.',
        'With {placeholders} and {"broken": } first: {"steps": []}',
        'Not {"a": NaN} and not {"a": 1e999} but {"steps": []}',
        '"{": {"steps": []}',
        '{{"steps": []}}',
    ],
)
def test_the_first_json_object_in_a_text_is_the_plan(text: str) -> None:
    assert plan_from_text(text) == {"steps": []}


def test_half_a_character_in_a_text_is_made_whole() -> None:
    assert plan_from_text(r'{"a": "\ud83c\udf78 \ud800"}') == {"a": "\U0001f378 \ufffd"}


@given(json_objects(), texts().filter(lambda text: "{" not in text), texts())
def test_an_object_is_found_between_any_words(value: JSONObject, before: str, after: str) -> None:
    found = plan_from_text(before + json.dumps(value) + after)
    assert dumps(found) == dumps(cast(JSONValue, plan_from_text(json.dumps(value))))


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.booleans())))
def test_the_object_that_is_found_is_whole(value: dict[str, Any]) -> None:
    assert plan_from_text(f"plan: {json.dumps(value, ensure_ascii=False)}.") == value


@pytest.mark.parametrize("text", ["", "no plan", "[1]", '{"steps": [', "{", "}{", "{'steps': []}", '{"a": Infinity}'])
def test_a_text_without_an_object_is_refused(text: str) -> None:
    refuses(lambda: plan_from_text(text), "no JSON object")


def test_a_plan_is_found_behind_much_that_is_none() -> None:
    code = 'x = {"key": value, "other": {"inner": value}}\n' * 100
    assert plan_from_text(f'{code}{{"steps": []}}') == {"steps": []}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 200_000,
        "{" * 1_000_000,
        '{"' * 500_000,
        ('{"a":' * 900 + "x") * 200,
        '{"a":[' * 400 + "1," * 500_000 + "x",
        '{"a":' * 900 + "1" + "}" * 900 + "x",
        '{"a":' + "9" * 100_000 + "}",
    ],
    ids=["nested", "braces", "quotes", "groups", "wide", "deep", "digits"],
)
def test_a_hostile_text_takes_no_long_time(text: str) -> None:
    """Workflow code reads it, which may not stand still."""
    try:
        plan_from_text(text)
    except UPPError as error:
        assert error.code == ErrorCode.INVALID_RESPONSE  # noqa: PT017  # either outcome is right


def test_steps_come_after_what_they_depend_on() -> None:
    assert ids(order_steps([step("3", "1", "2"), step("2", "1"), step("1")])) == ["1", "2", "3"]


def test_steps_that_can_come_next_keep_the_models_order() -> None:
    given_plan = [step("d", "b"), step("c"), step("a"), step("b"), step("e", "c")]
    assert ids(order_steps(given_plan)) == ["c", "a", "b", "d", "e"]


def test_a_step_that_becomes_ready_goes_before_later_ones() -> None:
    assert ids(order_steps([step("a"), step("b", "c"), step("c"), step("d")])) == ["a", "c", "b", "d"]


@given(plans())
def test_the_order_is_the_first_of_all_that_are_right(given_plan: list[PlanStep]) -> None:
    """At each place stands the first of the given steps whose dependencies have all come; nothing is lost."""
    left, done = [*given_plan], set[str]()
    for each in order_steps(given_plan):
        assert each is next(other for other in left if done.issuperset(other.depends_on))
        left.remove(each)
        done.add(each.id)
    assert left == []


@given(plans())
def test_an_order_is_in_order(given_plan: list[PlanStep]) -> None:
    once = order_steps(given_plan)
    assert order_steps(once) == once


def test_dependencies_may_be_said_twice() -> None:
    assert ids(order_steps([step("b", "a", "a"), step("a")])) == ["a", "b"]


def test_an_unknown_dependency_is_refused_by_name() -> None:
    refuses(lambda: order_steps([step("a"), step("b", "a", "x", "y")]), "step 'b'", "'x', 'y'")


def test_a_circle_is_refused_by_its_steps_alone() -> None:
    given_plan = [step("before"), step("after", "c"), step("a", "before", "b"), step("b", "c"), step("c", "a")]
    with pytest.raises(UPPError, match="circle: 'c' -> 'a' -> 'b' -> 'c' ") as refused:
        order_steps(given_plan)
    assert refused.value.code == ErrorCode.INVALID_RESPONSE
    assert "before" not in refused.value.message


def test_a_step_that_depends_on_itself_is_a_circle() -> None:
    refuses(lambda: order_steps([step("a", "a")]), "'a' -> 'a'")


def test_two_steps_of_one_id_have_no_order() -> None:
    refuses(lambda: order_steps([step("a"), step("a")]), "'a'")


@given(plans(), st.data())
def test_closing_a_circle_is_always_noticed(given_plan: list[PlanStep], data: st.DataObject) -> None:
    order = order_steps([*given_plan, step("last", *ids(given_plan))])
    first = data.draw(st.sampled_from(order))
    first.depends_on.append("last")
    refuses(lambda: order_steps(order), "circle", "'last'", repr(first.id))


def test_a_message_about_many_steps_stays_short() -> None:
    circle = [step(f"{number}" * 200, f"{(number + 1) % 2000}" * 200) for number in range(2000)]
    with pytest.raises(UPPError, match="and 1991 more") as refused:
        order_steps(circle)
    assert len(refused.value.message) < 1500


@pytest.mark.parametrize("max_steps", [1, 10])
def test_the_schema_can_be_enforced(max_steps: int) -> None:
    schema = plan_schema(max_steps)
    check_schema(schema, "plan")
    assert strict_problem(schema) is None
    assert cast("dict[str, Any]", schema)["properties"]["steps"]["maxItems"] == max_steps


def test_the_schema_takes_plans_and_nothing_else() -> None:
    fits = cast(Any, Draft202012Validator(cast("dict[str, Any]", plan_schema(2)))).is_valid
    item: JSONObject = {"id": "a", "description": "d", "tool": None, "dependsOn": []}

    assert fits(written())
    assert fits(written(item, {**item, "tool": "Read", "dependsOn": ["a"]}))
    assert not fits(written(item, item, item))
    assert not fits(written({**item, "status": "completed"}))
    assert not fits(written({"id": "a", "description": "d"}))
    assert not fits([item])


def test_schemas_share_nothing() -> None:
    cast("dict[str, Any]", plan_schema(2))["properties"]["steps"]["items"]["properties"].clear()
    assert "tool" in cast("dict[str, Any]", plan_schema(2))["properties"]["steps"]["items"]["properties"]


def test_what_has_run_stays_and_the_rest_gives_way() -> None:
    old = [completed("a"), failed("b", "a"), step("c", "b"), step("d", status=PlanStatus.IN_PROGRESS)]
    assert replanned(old, [step("x", "a"), step("y", "x")], 10) == [
        completed("a"),
        failed("b", "a"),
        step("x", "a"),
        step("y", "x"),
    ]


def test_ids_that_were_used_get_an_end_and_dependencies_follow() -> None:
    old = [completed("a"), failed("b", "a"), step("c", "b")]
    new = [step("b"), step("c", "b", "a"), step("z", "c")]
    renamed = replanned(old, new, 10)[2:]
    assert [(each.id, each.depends_on) for each in renamed] == [
        ("b-2", []),
        ("c-2", ["b-2", "a"]),
        ("z", ["c-2"]),
    ]


def test_an_id_with_its_end_is_none_that_is_taken() -> None:
    old = [completed("a"), completed("a-2")]
    assert ids(replanned(old, [step("a"), step("a-3")], 10)) == ["a", "a-2", "a-4", "a-3"]


def test_two_ids_with_their_ends_differ() -> None:
    old = [completed("a"), completed("a-2")]
    assert ids(replanned(old, [step("a-2"), step("a")], 10))[2:] == ["a-2-2", "a-3"]


def test_a_dependency_on_the_failed_step_is_dropped() -> None:
    """It would never be met; the new plan knows that the step failed."""
    old = [completed("a"), failed("b")]
    assert replanned(old, [step("c", "b", "a")], 10)[-1].depends_on == ["a"]


def test_a_dependency_on_a_step_that_gave_way_is_unknown() -> None:
    again = replanned([failed("a"), step("b", "a")], [step("c", "b")], 10)
    refuses(lambda: order_steps(again), "'b'")


def test_the_whole_plan_has_its_size() -> None:
    old = [completed("a"), failed("b")]
    new = [step("x", "z"), step("y", "x"), step("z")]
    assert replanned(old, new, 4) == [*old, step("x"), step("y", "x")]
    assert replanned(old, new, 2) == old
    assert replanned(old, new, 1) == old


def test_two_new_steps_of_one_id_are_refused() -> None:
    refuses(lambda: replanned([completed("a")], [step("x"), step("x")], 10), "'x'")


@given(half_run(), plans() | plans("1"), st.integers(1, 18))
def test_a_plan_made_anew_can_be_run(old: list[PlanStep], new: list[PlanStep], max_steps: int) -> None:
    """Ids differ, what has run is as it was, no step of the old plan that waited is left, and there is an order."""
    before = copy.deepcopy((old, new))
    again = replanned(old, new, max_steps)
    kept = [each for each in old if each.status in (PlanStatus.COMPLETED, PlanStatus.FAILED)]
    added = again[len(kept) :]
    assert again[: len(kept)] == kept
    assert len(added) == min(len(new), max(0, max_steps - len(kept)))
    assert [replace(each, id="", depends_on=[]) for each in added] == [
        replace(each, id="", depends_on=[]) for each in new[: len(added)]
    ]
    assert len(set(ids(again))) == len(again)
    assert set(ids(added)).isdisjoint(ids(old))
    assert sorted(ids(order_steps(again))) == sorted(ids(again))
    assert (old, new) == before


@given(half_run(), plans("n"))
def test_a_new_plan_under_new_ids_is_taken_as_it_is(old: list[PlanStep], new: list[PlanStep]) -> None:
    again = replanned(old, new, 100)
    assert again[len(again) - len(new) :] == new
