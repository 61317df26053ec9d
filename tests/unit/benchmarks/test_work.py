"""The scripted work: sizes, order, and what it notices."""

from __future__ import annotations

import zlib

import pytest

from benchmarks.work import (
    WORK,
    WrongRun,
    calls_per_step,
    check_answer,
    final_text,
    model_answer,
    prompt,
    read_prompt,
    steps,
    tool_result,
)


@pytest.mark.parametrize("work", list(WORK))
def test_a_turn_of_n_steps_has_n_answers_with_calls_and_a_last_one(work: str) -> None:
    answers = [model_answer(work, given) for given in range(steps(work) + 1)]
    assert [len(answer.calls) for answer in answers] == [calls_per_step(work)] * steps(work) + [0]
    assert answers[-1].text == final_text(work)


def test_calls_have_ids_that_are_unique_in_a_session() -> None:
    ids = [call.id for turn in range(3) for given in range(10) for call in model_answer("W4", given, turn).calls]
    assert len(set(ids)) == len(ids) == 3 * 10 * 4


@pytest.mark.parametrize(("work", "size"), [("W1", 100), ("W3", 20_000)])
def test_results_have_the_works_size_and_hardly_compress(work: str, size: int) -> None:
    result = tool_result(work, 3, 0)
    assert len(result) == size
    assert result != tool_result(work, 4, 0)
    assert len(zlib.compress(result.encode(), 9)) > 0.7 * size


def test_a_prompt_says_the_work_and_the_turn() -> None:
    assert read_prompt(prompt("W5", 17)) == ("W5", 17)


def test_the_model_takes_the_results_of_the_step_before_in_any_order() -> None:
    results = [tool_result("W4", 2, index) for index in (3, 0, 2, 1)]
    assert model_answer("W4", 3, 0, results) == model_answer("W4", 3)
    assert model_answer("W4", 0, 0, []) == model_answer("W4", 0)


@pytest.mark.parametrize("lost", [[], [tool_result("W4", 2, 0)], [tool_result("W4", 1, index) for index in range(4)]])
def test_a_runtime_that_loses_results_is_found_out(lost: list[str]) -> None:
    with pytest.raises(WrongRun):
        model_answer("W4", 3, 0, lost)


@pytest.mark.parametrize("text", ["", None, final_text("W2")])
def test_another_answer_than_the_scripts_is_found_out(text: str | None) -> None:
    check_answer("W1", final_text("W1"))
    with pytest.raises(WrongRun):
        check_answer("W1", text)
