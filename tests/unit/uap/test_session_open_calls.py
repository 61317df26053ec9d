"""Tool calls that nobody answered, on their way to a vendor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.uap.open_calls import sendable_history
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult

NEXT = UserMessage("next")


def asked(*ids: str) -> AssistantMessage:
    return AssistantMessage("", [ToolCall(id_, "look", {}) for id_ in ids])


def answered(*ids: str) -> ToolResultMessage:
    return ToolResultMessage([ToolResult(id_, "seen") for id_ in ids])


def results(message: Message) -> list[tuple[str, bool]]:
    assert isinstance(message, ToolResultMessage)
    return [(result.tool_call_id, result.is_error) for result in message.results]


def test_a_history_without_open_calls_is_sent_as_it_is() -> None:
    history: list[Message] = [UserMessage("go"), asked("a", "b"), answered("a", "b"), AssistantMessage("there")]
    assert sendable_history(history, NEXT) == history


def test_open_calls_get_errors_right_behind_them() -> None:
    """In the middle and at the end; the history is not changed."""
    history: list[Message] = [asked("a", "b"), UserMessage("and?"), asked("c")]
    sent = sendable_history(history, NEXT)
    assert [message.type for message in sent] == ["assistant", "tool_result", "user", "assistant", "tool_result"]
    assert results(sent[1]) == [("a", True), ("b", True)]
    assert results(sent[4]) == [("c", True)]
    assert len(history) == 3


def test_only_the_calls_that_are_open_get_errors() -> None:
    sent = sendable_history([asked("a", "b"), answered("b")], NEXT)
    assert [results(message) for message in sent[1:]] == [[("a", True)], [("b", False)]]


def test_results_of_other_answers_do_not_count() -> None:
    """A vendor may give the same id twice."""
    sent = sendable_history([asked("a"), asked("a"), answered("a")], NEXT)
    assert [message.type for message in sent] == ["assistant", "tool_result", "assistant", "tool_result"]


def test_results_that_are_the_input_answer_calls() -> None:
    assert len(sendable_history([asked("a")], answered("a"))) == 1


histories = st.lists(
    st.lists(st.sampled_from("ab"), unique=True).map(lambda ids: asked(*ids))
    | st.lists(st.sampled_from("ab"), unique=True).map(lambda ids: answered(*ids))
    | st.builds(UserMessage, st.just("word"))
)


@given(histories)
def test_what_is_sent_is_the_same_each_time_and_has_no_open_calls(history: list[Message]) -> None:
    sent = sendable_history(history, NEXT)
    assert sent == sendable_history(history, NEXT)
    assert sendable_history(sent, NEXT) == sent
    added = [message for message in sent if message not in history]
    assert [message for message in sent if message not in added] == history
