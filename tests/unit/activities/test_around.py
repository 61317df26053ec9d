"""What middleware of a durable run is given, and what is stored of what it left."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest

from perdure.activities.around_context import metadata_of, spent_by, with_run
from perdure.activities.around_enter import view_items
from perdure.activities.contracts import Progress
from perdure.activities.held_events import held_events
from perdure.activities.stored_run import StoredRun, turned_rows
from perdure.errors import GuardrailRejected, StrategyError
from perdure.store.messages import StoredMessage, read_body
from perdure.uap.agent import agent
from perdure.uap.middleware import MiddlewareContext
from perdure.uap.spent import Spent
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, message_from_json
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.tool_call import ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

BEFORE = [UserMessage(str(place)) for place in range(5)]
NOTE = UserMessage("note")
INLINE: JSONObject = {"message": NOTE.to_json()}


def row(place: int, message: Message, *, discarded: bool = False) -> StoredMessage:
    return StoredMessage(place, f"row{place}", "run", 1, "", 0, message, discarded=discarded)


@pytest.mark.parametrize(
    ("history", "items"),
    [
        (BEFORE, None),
        ([], []),
        (BEFORE[2:], [{"before": [2, 5]}]),
        ([NOTE, *BEFORE[3:]], [INLINE, {"before": [3, 5]}]),
        ([*BEFORE[:2], NOTE, *BEFORE[2:]], [{"before": [0, 2]}, INLINE, {"before": [2, 5]}]),
        ([BEFORE[1], BEFORE[0]], [{"before": [1, 2]}, {"before": [0, 1]}]),
        ([*BEFORE, NOTE], [{"before": [0, 5]}, INLINE]),
    ],
    ids=["untouched", "none", "end", "summary", "between", "turned", "after"],
)
def test_a_view_names_what_is_unchanged_by_where_it_stands(history: list[Message], items: object) -> None:
    assert view_items(BEFORE, history) == items


def test_no_history_left_alone_is_no_view() -> None:
    assert view_items([], []) is None


def test_what_was_spent_is_the_runs_and_its_sub_agents() -> None:
    """Steps are the run's own; a cost that is not known makes the whole unknown."""
    own = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "cost": "0.5"}
    child = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2, "cost": "0.25"}
    assert spent_by(Progress(0, 1)) == Spent()
    assert spent_by(Progress(2, 5, own, 2, usage_by_agent={"a/b": child})) == Spent(9, 2, Decimal("0.75"))
    assert spent_by(Progress(2, 5, {"totalTokens": 7}, 2)).cost is None


def test_metadata_must_be_json() -> None:
    context = MiddlewareContext(agent=agent(model=scripted([])), input=NOTE, metadata={"a": (1, 2)})
    assert metadata_of(context) == {"a": [1, 2]}
    context.metadata["b"] = object()
    with pytest.raises(StrategyError, match="not JSON"):
        metadata_of(context)


def test_an_error_learns_its_run_once() -> None:
    error = GuardrailRejected("no")
    with_run(error, "first")
    with_run(error, "second")
    assert error.run_id == "first"


def test_a_turn_keeps_the_rows_that_it_begins_with() -> None:
    """What was changed, left out or put before others is stored anew from there on."""
    said, old, answer = UserMessage("go"), AssistantMessage("old"), AssistantMessage("hi", id="a")
    run = StoredRun([row(0, said), row(1, old, discarded=True), row(2, answer)], {}, Progress(1, 3))
    other = AssistantMessage("ho", id="a")

    def split(*messages: Message) -> tuple[list[str], list[Message]]:
        kept, new = run.split(Turn(messages, [], empty_usage(), 1))
        return [item.id for item in kept], new

    assert split(said, answer) == (["row0", "row2"], [])
    assert split(said, other) == (["row0"], [other])
    assert split(answer, said) == (["row2"], [said])
    assert split(said, old) == (["row0"], [old])
    assert run.turn(1).messages == [said, answer]


def test_results_of_another_turn_are_read_as_they_were() -> None:
    """NUL, lone surrogates and the code point that stands for them in stored JSON."""
    results = ToolResultMessage([ToolResult("call", "\x00 \ud800 \ufdd0 ä")])
    ((named,), (body,)) = turned_rows("run", 1, "left", [results])
    assert named["type"] == "tool_result"
    assert message_from_json(read_body("tool_result", body)) == results


def test_the_events_of_another_answer_have_no_reasoning_and_its_text() -> None:
    said, first = UserMessage("go"), AssistantMessage("", [call("look", word="w")])
    answer, checked = AssistantMessage("hi"), AssistantMessage("ho")
    run = StoredRun([row(0, said), row(1, first), row(2, answer)], {}, Progress(1, 3))
    made = Turn([said, first, answer], [], empty_usage(), 2)

    def told(turn: Turn) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", held_events(run, made, turn, answer="other", attempt=1))

    events, others = told(made), told(Turn([said, first, checked], [], empty_usage(), 2))
    assert [event["t"] for event in events] == [event["t"] for event in others]
    assert [event["t"] for event in events].count("action") == 1
    texts = [event["d"] for event in [*events, *others] if event["t"] == "text_delta"]
    assert [(text["message"], text["delta"]) for text in texts] == [("row2", {"text": "hi"}), ("other", {"text": "ho"})]
