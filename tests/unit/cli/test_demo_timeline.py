"""The demo's steps from events, its drawn timeline, and its figures from a ledger."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.cli.demo_figures import Figures, History, Stored, first_by, is_quiet
from perdure.cli.demo_project.ledger import Entry, Kind
from perdure.cli.demo_timeline import Crash, Span, Step, Timeline, bars, spans
from perdure.store.events import Event
from perdure.store.runs import RunRow
from perdure.uap.session_key import SessionKey
from perdure.upp import JSONObject

CALLS: JSONObject = {
    "toolCalls": [
        {"toolCallId": "a", "toolName": "read_file", "arguments": {"path": "x\x1b.py"}},
        {"toolCallId": "b", "toolName": "read_file", "arguments": {"path": "y.py"}},
    ]
}


def event(kind: str, step: int | None, data: JSONObject, at: float = 0.0) -> Event:
    return Event("s", 1, "r", step, 1, "uap", kind, data, datetime.fromtimestamp(at, UTC))


def ended(call: str, at: float = 0.0) -> Event:
    return event("tool_execution_end", 1, {"delta": {"toolCallId": call}}, at)


def said(text: str, step: int = 1) -> Event:
    return event("text_delta", step, {"delta": {"text": text}})


def entry(kind: Kind, key: str, at: float = 0.0, pid: int = 1) -> Entry:
    return Entry(kind, key, "name", pid, at)


def test_a_step_is_complete_with_the_last_of_its_results() -> None:
    timeline = Timeline()
    assert timeline.add(said("I read.")) is None
    assert timeline.add(event("action", 1, CALLS)) is None
    assert timeline.add(ended("b", 1.0)) is None
    step = timeline.add(ended("a", 2.0))
    assert step is not None
    assert (step.said, step.label) == ("I read.", "read_file x�.py and 1 more at once")
    assert step.ended_at == datetime.fromtimestamp(2.0, UTC)


def test_the_answer_is_complete_when_the_run_ends() -> None:
    timeline = Timeline()
    timeline.add(said("Done."))
    step = timeline.add(event("run.completed", None, {}, 3.0))
    assert step is not None
    assert (step.said, step.label) == ("Done.", "the answer")


def test_a_broken_off_answer_is_said_once() -> None:
    timeline = Timeline()
    for given in (said("I re"), event("message.reset", 1, {}), said("I read.")):
        timeline.add(given)
    assert timeline.steps[1].said == "I read."


def test_a_failed_run_completes_no_step() -> None:
    timeline = Timeline()
    timeline.add(event("action", 1, CALLS))
    assert timeline.add(event("run.failed", None, {})) is None
    assert Timeline().add(event("run.failed", None, {})) is None


def test_the_crash_stands_among_the_steps_from_the_kill_to_the_next_effect() -> None:
    steps = [Step(number, ended_at=datetime.fromtimestamp(at, UTC)) for number, at in ((1, 11.0), (2, 19.0))]
    entries = [entry("model", "0", 10.0), entry("model", "1", 18.0), entry("model", "1", 18.5)]
    found = spans(steps, entries, Crash(1, 12.0, 18.0))
    assert [(span.step, span.begin_s, span.end_s) for span in found] == [(1, 0.0, 1.0), (None, 2.0, 8.0), (2, 8.0, 9.0)]
    assert found[1].label == "worker 1 killed, worker 2 goes on"


def test_bars_are_to_scale_and_a_step_shows_the_crash_in_it() -> None:
    drawn = bars([Span(0, 2, "", 1), Span(2, 10, "", 2), Span(4, 8, ""), Span(9.99, 10, "", 3)], 10)
    assert drawn == ["##", "  ##....##", "    ....", "         #"]


def test_a_step_that_ends_just_before_the_crash_is_drawn_as_work() -> None:
    drawn = bars([Span(4.1, 4.4, "", 1), Span(4.5, 9.0, ""), Span(9.1, 10, "", 2)], 10)
    assert drawn == ["    #", "    .....", "         #"]


def test_nothing_to_draw_is_no_error() -> None:
    assert bars([], 10) == []
    assert spans([], [], None) == []


@pytest.mark.parametrize(
    ("entries", "answers_twice", "duplicates"),
    [
        ([entry("model", "0"), entry("tool", "0")], 0, 0),
        ([entry("model", "0"), entry("model", "0")], 0, 1),
        ([entry("tool", "k"), entry("tool", "k"), entry("tool", "k")], 0, 2),
        ([entry("model", "0")], 1, 1),
    ],
)
def test_whatever_was_done_again_is_a_duplicate(entries: list[Entry], answers_twice: int, duplicates: int) -> None:
    run = RunRow(SessionKey("t", "s"), "r", 1, "completed")
    figures = Figures(run, entries, Stored(1, answers_twice, 1), History(1, 1, 1), None, 0.0)
    assert figures.duplicates == duplicates


def test_a_worker_is_quiet_when_all_that_was_bought_and_run_is_stored() -> None:
    entries = [entry("model", "0"), entry("tool", "k")]
    assert is_quiet(entries, Stored(answers=1, answers_twice=0, results=1))
    assert not is_quiet(entries, Stored(answers=0, answers_twice=0, results=1))
    assert not is_quiet(entries, Stored(answers=1, answers_twice=0, results=0))


def test_the_first_effect_of_a_worker_is_found_by_its_process() -> None:
    entries = [entry("model", "0", pid=1), entry("model", "1", 5.0, pid=2), entry("tool", "k", 6.0, pid=2)]
    assert first_by(entries, 2) == entries[1]
    assert first_by(entries, 3) is None
