"""L13, the rule itself: whatever happened to a thread's tool calls and results, the cure makes it sound, once, and stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.uap.sound_thread import Cure, Place, cure
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult

USER = UserMessage("hello")


def asks(*calls: str) -> AssistantMessage:
    return AssistantMessage("wait", [ToolCall(call, "tool", {}) for call in calls])


def tells(*results: str) -> ToolResultMessage:
    """Results by call id; what follows a colon tells two of one call apart."""
    return ToolResultMessage([ToolResult(result.partition(":")[0], f"result {result}") for result in results])


def placed(*messages: Message) -> list[Place]:
    return [Place(f"m{number}", message) for number, message in enumerate(messages)]


def applied(thread: Sequence[Place], wrong: Cure) -> list[Place]:
    """The thread after its cure, as the store writes it."""
    batches = {batch.answer: batch for batch in wrong.batches}
    gone = {*wrong.dropped, *(ident for batch in wrong.batches for ident in batch.instead)}
    made: list[Place] = []
    for place in thread:
        if place.id not in gone:
            made.append(place)
        if place.id in batches:
            made.append(Place(f"{place.id}+", ToolResultMessage(list(batches[place.id].results))))
    return made


def results_of(thread: Sequence[Place]) -> list[list[tuple[str, object, bool]]]:
    return [
        [(one.tool_call_id, one.result, one.is_error) for one in place.message.results]
        for place in thread
        if isinstance(place.message, ToolResultMessage)
    ]


LOST = (NOT_CARRIED_OUT, True)
DAMAGED: dict[str, tuple[list[Message], list[list[tuple[str, object, bool]]]]] = {
    "missing": ([USER, asks("a", "b"), tells("a"), USER], [[("a", "result a", False), ("b", *LOST)]]),
    "none at all": ([USER, asks("a"), USER], [[("a", *LOST)]]),
    "none at the end": ([USER, asks("a")], [[("a", *LOST)]]),
    "duplicate": ([asks("a"), tells("a:1", "a:2"), USER], [[("a", "result a:1", False)]]),
    "duplicate message": ([asks("a"), tells("a:1"), tells("a:2"), USER], [[("a", "result a:1", False)]]),
    "foreign": ([asks("a"), tells("a", "z"), USER], [[("a", "result a", False)]]),
    "foreign alone": ([USER, tells("z"), USER], []),
    "reordered": ([asks("a", "b"), tells("b", "a")], [[("a", "result a", False), ("b", "result b", False)]]),
    "elsewhere": ([asks("a"), USER, tells("a"), USER], [[("a", "result a", False)]]),
    "behind another call": (
        [asks("a"), asks("b"), tells("b", "a")],
        [[("a", "result a", False)], [("b", "result b", False)]],
    ),
    "same id again": (
        [asks("a"), tells("a:1"), asks("a"), USER, tells("a:2")],
        [[("a", "result a:1", False)], [("a", "result a:2", False)]],
    ),
    "before its call": ([tells("a"), asks("a"), USER], [[("a", *LOST)]]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_thread_is_made_sound(name: str) -> None:
    """L13: each call has one result directly behind it, in order; what belongs to no call is gone; then nothing is wrong."""
    messages, expected = DAMAGED[name]
    thread = placed(*messages)
    wrong = cure(thread, {})
    assert wrong.faults
    made = applied(thread, wrong)
    assert results_of(made) == expected
    assert cure(made, {}) == Cure()


SOUND: dict[str, list[Message]] = {
    "one message": [USER, asks("a", "b"), tells("a", "b"), USER],
    "a message each": [asks("a", "b"), tells("a"), tells("b"), USER],
    "no calls": [USER, AssistantMessage("hi"), USER],
    "the same id twice": [asks("a"), tells("a"), asks("a"), tells("a")],
    "two calls of one id": [asks("a", "a"), tells("a:1", "a:2")],
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_thread_is_left_alone(name: str) -> None:
    assert cure(placed(*SOUND[name]), {}) == Cure()


def test_what_was_stored_of_a_call_is_its_result() -> None:
    """A call that lacks its result gets the stored one, and not an error."""
    thread = placed(asks("a", "b"), USER)
    (batch,) = cure(thread, {("m0", 1): ToolResult("", "stored")}).batches
    assert batch.results == (ToolResult("a", NOT_CARRIED_OUT, is_error=True), ToolResult("b", "stored"))


def test_results_at_the_beginning_of_a_branch_may_be_its_parents() -> None:
    assert cure(placed(tells("a"), USER), {}, goes_on=True) == Cure()
    assert cure(placed(USER, tells("a"), USER), {}, goes_on=True).dropped == ("m1",)


def test_a_lost_body_is_replaced() -> None:
    """Results whose body cannot be read are written anew, also where others stand beside them."""
    lost = Place("m1", ToolResultMessage([]), lost=True)
    thread = [Place("m0", asks("a")), lost, Place("m2", tells("a"))]
    (batch,) = cure(thread, {}).batches
    assert (batch.instead, [one.result for one in batch.results]) == (("m1", "m2"), ["result a"])


def _asks(calls: list[str]) -> Message:
    return asks(*calls)


def _tells(results: list[str]) -> Message:
    return tells(*results)


IDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
MESSAGES = st.one_of(st.just(USER), st.builds(_asks, IDS), st.builds(_tells, IDS))


@given(st.lists(MESSAGES, max_size=12))
def test_any_thread_is_mended_once(messages: list[Message]) -> None:
    """Whatever stands in a thread: its cure leaves nothing to cure, and no message of a user or model is touched."""
    thread = placed(*messages)
    wrong = cure(thread, {})
    made = applied(thread, wrong)
    assert cure(made, {}) == Cure()
    assert (wrong == Cure()) == (not wrong.faults)
    said = [place for place in thread if not isinstance(place.message, ToolResultMessage)]
    assert [place for place in made if not isinstance(place.message, ToolResultMessage)] == said
    for number, place in enumerate(made):
        if isinstance(place.message, AssistantMessage) and place.message.tool_calls:
            assert isinstance(made[number + 1].message, ToolResultMessage)
