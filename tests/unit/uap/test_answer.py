"""What becomes of a model's answer before it counts."""

from __future__ import annotations

import pytest

from perdure.uap.answer import accepted
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMResponse
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage

MODEL = scripted(["hi"]).bind()


def test_an_answer_of_which_nothing_is_left_is_an_error() -> None:
    """Stored, it would make each later request one that vendors refuse."""
    filtered = LLMResponse(AssistantMessage([]), TokenUsage(1, 0, 1), "content_filter")
    with pytest.raises(UPPError) as raised:
        accepted(filtered, MODEL, {})
    assert raised.value.code is ErrorCode.CONTENT_FILTERED


@pytest.mark.parametrize(("text", "stop"), [("so far", "content_filter"), ("all of it", "end_turn")])
def test_what_is_left_counts(text: str, stop: str) -> None:
    response = LLMResponse(AssistantMessage(text), TokenUsage(1, 1, 2), stop)
    assert accepted(response, MODEL, {}) is response
