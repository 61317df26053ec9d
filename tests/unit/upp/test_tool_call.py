"""Tool calls, results and executions as values."""

from __future__ import annotations

import pytest
from hypothesis import given

from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from tests.unit.upp import strategies as upp


@given(upp.tool_calls)
def test_a_call_survives_json(call: ToolCall) -> None:
    """Arguments of any shape are kept."""
    assert ToolCall.from_json(loads(dumps(call.to_json()))) == call


@given(upp.tool_results)
def test_a_result_survives_json(result: ToolResult) -> None:
    """Results of any shape are kept."""
    assert ToolResult.from_json(loads(dumps(result.to_json()))) == result


@given(upp.tool_executions)
def test_an_execution_survives_json(execution: ToolExecution) -> None:
    """The record is read back equal."""
    assert ToolExecution.from_json(loads(dumps(execution.to_json()))) == execution


def test_the_duration_is_called_as_upp_calls_it() -> None:
    """`duration` is in milliseconds; `approved` is absent if nobody was asked."""
    execution = ToolExecution("t", "c", {"x": 1}, "ok", False, 12)
    assert execution.to_json() == {
        "toolName": "t",
        "toolCallId": "c",
        "arguments": {"x": 1},
        "result": "ok",
        "isError": False,
        "duration": 12,
    }


def test_an_execution_tells_the_model_its_result() -> None:
    """The result has the call's id and the same value."""
    assert ToolExecution("t", "c", {}, "bad", True, 0).to_result() == ToolResult("c", "bad", True)


def test_an_absent_flag_is_no_error() -> None:
    """IsError defaults to false, absent arguments to an empty object."""
    assert ToolResult.from_json({"toolCallId": "c", "result": 1}) == ToolResult("c", 1, False)
    assert ToolCall.from_json({"toolCallId": "c", "toolName": "t"}) == ToolCall("c", "t", {})


@pytest.mark.parametrize("value", [None, [], {"toolName": "t"}, {"toolCallId": 1, "toolName": "t"}])
def test_what_is_no_call_is_refused(value: JSONValue) -> None:
    """A call without an id cannot be answered."""
    with pytest.raises(UPPError, match="tool call"):
        ToolCall.from_json(value)
