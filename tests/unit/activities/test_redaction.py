"""L97: what is stored and what goes to Temporal, without secrets; values without any stay the very objects."""

from __future__ import annotations

import uuid

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from perdure.activities.border import to_application_error
from perdure.activities.contracts import CallToolResult
from perdure.activities.convert import data_converter
from perdure.activities.redaction import (
    clean_execution,
    clean_message,
    clean_messages,
    clean_options,
    clean_response,
    clean_turn,
    described,
)
from perdure.errors import RunError
from perdure.uap.options import RunOptions
from perdure.upp import (
    AssistantMessage,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from perdure.upp.provider import LLMResponse
from perdure.upp.redaction import known_secrets
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

VALUE, MARK = f"canary-{uuid.uuid4().hex}", "[redacted:it]"


@pytest.fixture(autouse=True)
def known() -> None:
    known_secrets.register("it", VALUE)


def answer(said: str) -> AssistantMessage:
    metadata = {"anthropic": {"thinkingSignatures": ["sig"]}, "uap": {"scaffold": "reason"}}
    return AssistantMessage(
        [ReasoningBlock(said), TextBlock(said)], [ToolCall("c", "t", {said: [said]})], metadata=metadata
    )


def test_l97_a_message_is_redacted_in_all_its_parts() -> None:
    """A vendor's signatures over what was said go with it; what is ours stays, and so do id and time."""
    given = answer(VALUE)
    clean = clean_message(given)
    assert VALUE not in str(clean.to_json())
    assert (clean.text, clean.reasoning[0].text, clean.tool_calls) == (MARK, MARK, [ToolCall("c", "t", {MARK: [MARK]})])
    assert clean.metadata == {"uap": {"scaffold": "reason"}}
    assert (clean.id, clean.timestamp) == (given.id, given.timestamp)
    results = clean_message(ToolResultMessage([ToolResult("c", {"x": VALUE}, is_error=False)]))
    assert results.results[0].result == {"x": MARK}


def test_l97_what_holds_no_secret_is_the_same_object() -> None:
    message, execution = answer("x"), ToolExecution("t", "c", {"a": 1}, "r", is_error=False, duration_ms=1)
    turn, options = Turn([message], [execution], empty_usage(), 1), RunOptions(instructions="be kind")
    response = LLMResponse(message, empty_usage())
    assert clean_message(message) is message
    assert clean_execution(execution) is execution
    assert clean_turn(turn) is turn
    assert clean_response(response) is response
    assert clean_options(options) is options


def test_l97_turns_answers_and_options_are_redacted() -> None:
    execution = ToolExecution("t", "c", {"a": VALUE}, [VALUE], is_error=True, duration_ms=1, approved=True)
    assert clean_execution(execution) == ToolExecution(
        "t", "c", {"a": MARK}, [MARK], is_error=True, duration_ms=1, approved=True
    )
    turn = clean_turn(Turn([UserMessage(VALUE), answer(VALUE)], [execution], empty_usage(), 1, data={"d": VALUE}))
    assert VALUE not in str(turn.to_json())
    assert turn.data == {"d": MARK}
    assert clean_response(LLMResponse(answer("x"), empty_usage(), data=VALUE)).data == MARK
    assert clean_options(RunOptions(instructions=VALUE, max_steps=3)) == RunOptions(instructions=MARK, max_steps=3)


def test_l97_messages_of_the_store_are_not_looked_at_again() -> None:
    stored, new = UserMessage(VALUE), UserMessage(VALUE)
    kept, clean = clean_messages([stored, new], but=[stored])
    assert kept is stored
    assert clean.text == MARK


def test_l97_no_payload_holds_a_secret() -> None:
    """Neither a contract nor a plain value, nor one that needs escapes; numbers and ids beside it stay."""
    converter = data_converter.payload_converter
    for value in (CallToolResult(result={"a": f"é{VALUE}"}, sha256="ab"), {VALUE: [1, VALUE]}, f"\ud83c {VALUE}"):
        (payload,) = converter.to_payloads([value])
        assert VALUE.encode() not in payload.data
        assert MARK.encode() in payload.data
    (payload,) = converter.to_payloads([CallToolResult(result=VALUE, sha256="ab", size=3)])
    assert converter.from_payloads([payload], [CallToolResult]) == [CallToolResult(result=MARK, sha256="ab", size=3)]


def test_l97_no_failure_holds_a_secret() -> None:
    """Nor do its causes and their stack traces, and the detail by which it is read back."""
    try:
        try:
            raise KeyError(VALUE)
        except KeyError as error:
            raise to_application_error(RunError(f"failed with {VALUE}", run_id="r")) from error
    except ApplicationError as error:
        failure = Failure()
        data_converter.failure_converter.to_failure(error, data_converter.payload_converter, failure)
    assert VALUE.encode() not in failure.SerializeToString()
    assert failure.message == f"failed with {MARK}"
    assert MARK in failure.cause.message
    read = data_converter.failure_converter.from_failure(failure, data_converter.payload_converter)
    assert isinstance(read, ApplicationError)
    assert read.details[0]["message"] == f"failed with {MARK}"


def test_l97_an_error_is_described_without_secrets() -> None:
    assert described(ValueError(VALUE)) == {"type": "ValueError", "message": MARK}
