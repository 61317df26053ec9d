from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai import openai
from perdure.upp.providers.openai_completions import OPENAI as OPENAI_COMPLETIONS
from perdure.upp.providers.openai_completions import CompletionsModel
from perdure.upp.providers.openai_responses import OPENAI, ResponsesModel


def test_the_responses_api_is_the_default() -> None:
    assert openai("gpt-5").bind() == ResponsesModel("gpt-5", OPENAI)


def test_chat_completions_may_be_asked_for() -> None:
    assert openai("gpt-5", api="completions").bind() == CompletionsModel("gpt-5", OPENAI_COMPLETIONS)


def test_another_api_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="assistants"):
        openai("gpt-5", api="assistants")


def test_the_reference_names_its_provider_and_keeps_the_configuration() -> None:
    config = ProviderConfig(base_url="http://host/v1")
    reference = openai("gpt-5", config=config)
    assert (reference.provider.name, reference.model_id, reference.config) == ("openai", "gpt-5", config)
    assert reference.options == {"api": "responses"}


@pytest.mark.parametrize("options", [{"api": "assistants"}, {"api": "responses", "x": 1}, {"x": 1}])
def test_options_that_there_are_not_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UPPError) as caught:
        openai("gpt-5").provider.bind("gpt-5", options)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_model_says_what_it_can_do() -> None:
    can = openai("gpt-5").bind().capabilities
    assert (can.streaming, can.tools, can.structured_output, can.image_input, can.document_input) == (True,) * 5
    assert (can.audio_input, can.video_input, can.image_output) == (False,) * 3
