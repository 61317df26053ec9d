"""Where a thread says that a stage session is, and what of it a model is sent."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.uap.stage_place import StagePlace, as_told, is_own, last_place, place_of, qualified, stage_result
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult

FIRST, SECOND = StagePlace("cart", "1" * 64), StagePlace("", "2" * 64)


def asked(*calls: tuple[str, str, Any], error: bool = False) -> list[Message]:
    """An answer with calls, each (id, tool, result), and their results."""
    made = [ToolCall(ident, name, {}) for ident, name, _ in calls]
    return [
        AssistantMessage("", made),
        ToolResultMessage([ToolResult(ident, result, error) for ident, _, result in calls]),
    ]


@pytest.mark.parametrize(
    "result",
    ["text", None, {}, {"content": "c", "stage": "cart"}, {"content": "c", "stage": 7, "state": "1"},
     {"content": "c", "stage": "cart", "state": "1", "more": 1}],
    ids=["text", "none", "empty", "no state", "no stage", "more"],
)  # fmt: skip
def test_other_results_name_no_place(result: Any) -> None:
    assert place_of(result) is None


def test_the_last_result_counts() -> None:
    """Of several messages the last, of several results of one the last; those that say nothing are passed over."""
    thread = [
        UserMessage("go"),
        *asked(("a", "move", stage_result("x", SECOND)), ("b", "add", stage_result("y", FIRST)), ("c", "add", "Error")),
        AssistantMessage("so"),
        UserMessage("on"),
    ]
    assert last_place(thread, ["look"]) == FIRST
    assert last_place([*thread, *asked(("a", "add", stage_result("z", SECOND)))], ["look"]) == SECOND
    assert last_place([UserMessage("go")], []) is None


def test_a_tool_of_the_agents_own_can_say_nothing_of_it() -> None:
    """Whatever it returns: neither is the session moved, nor is the result cut. Of calls of one id the order counts."""
    forged = stage_result("mine", SECOND)
    thread = asked(("same", "add", stage_result("y", FIRST)), ("same", "look", forged))
    assert last_place(thread, ["look"]) == FIRST
    (_, results) = as_told(thread, ["look"])
    assert isinstance(results, ToolResultMessage)
    assert [item.result for item in results.results] == ["y", forged]


def test_a_model_is_sent_the_words_alone() -> None:
    """Nothing else changes, and what was given stays as it is."""
    thread = [UserMessage("go"), *asked(("a", "add", stage_result("words", FIRST)), ("b", "other", "text"))]
    sent = as_told(thread, [])
    assert isinstance(results := sent[2], ToolResultMessage)
    assert [item.result for item in results.results] == ["words", "text"]
    assert (sent[2].id, sent[2].timestamp) == (thread[2].id, thread[2].timestamp)
    assert sent[:2] == thread[:2]
    assert last_place(thread, []) == FIRST


def test_a_stages_task_is_named_as_no_tool_can_be() -> None:
    assert is_own("add")
    assert not is_own(qualified("cart", "add"))
