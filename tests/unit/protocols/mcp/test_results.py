"""What a tool's call results in."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.protocols.mcp.results import call_result, refused_result
from perdure.protocols.uaip.reply import unsettled
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.refusal import Reason, Refusal, session_not_found
from tests.unit.uaip.served_session import ServedSession
from tests.unit.uaip.stage_store import DEFINITION, SESSION, Store, store_session


@pytest.fixture
def served() -> ServedSession:
    return ServedSession.open(Store)


def result(served: ServedSession, action: str, **members: Any) -> dict[str, Any]:
    """The result as it goes over the wire."""
    reply = served.execute(SESSION, {"workflow_name": "store", "action": action, **members})
    return call_result(reply).model_dump(by_alias=True, mode="json", exclude_none=True)


def text(found: dict[str, Any]) -> str:
    (block,) = found["content"]
    assert block["type"] == "text"
    return block["text"]


def test_a_task_that_returned(served: ServedSession) -> None:
    found = result(served, "method_call", task="search", args={"query": "pen", "limit": 1})
    assert found["isError"] is False
    assert text(found).startswith("Task 'search' executed successfully.\n\nResult:\n")
    told = found["structuredContent"]
    assert told["result"] == [{"sku": "pen-0", "price": 0.5}]
    assert (told["status"], told["current_stage"], told["session_id"]) == ("ok", "browse", SESSION)
    assert told["transitions"] == ["select"]
    assert {"content", "tools"}.isdisjoint(told)


def test_a_task_that_returned_nothing_has_a_result_all_the_same(served: ServedSession) -> None:
    result(served, "stage_transition", stage="select")
    told = result(served, "method_call", task="add", args={"sku": "x"})["structuredContent"]
    assert told["result"] == 1


def test_a_move(served: ServedSession) -> None:
    found = result(served, "stage_transition", stage="select")
    told = found["structuredContent"]
    assert (found["isError"], told["from_stage"], told["to_stage"]) == (False, "browse", "select")


@pytest.mark.parametrize(
    ("action", "members", "words", "more"),
    [
        ("method_call", {"task": "pay"}, "Error: Task 'pay' not found in stage 'browse'", {"available": ["search"]}),
        ("stage_transition", {"stage": "done"}, "Error: Cannot transition", {"allowed": ["select"]}),
        ("method_call", {"task": "search"}, "Error: Invalid arguments for task 'search'", {"task": "search"}),
        ("state_input", {"state_updates": {"events": 1}}, "Error: Invalid state update", {"key": "events"}),
    ],
)
def test_a_refusal_is_an_error_that_helps_on(
    served: ServedSession, action: str, members: dict[str, Any], words: str, more: dict[str, Any]
) -> None:
    found = result(served, action, **members)
    assert found["isError"] is True
    assert text(found).startswith(words)
    assert more.items() <= found["structuredContent"].items()


def test_what_is_missing_is_named_and_how_it_is_provided(served: ServedSession) -> None:
    result(served, "stage_transition", stage="select")
    found = result(served, "stage_transition", stage="checkout")
    assert found["isError"] is True
    assert found["structuredContent"]["missing"] == ["cart.items", "user.email"]
    assert text(found).endswith("provide_state takes those that tasks do not write; call transition_stage again then.")


def test_a_task_that_raised_is_an_error(served: ServedSession) -> None:
    result(served, "stage_transition", stage="select")
    found = result(served, "method_call", task="fail")
    assert (found["isError"], text(found)) == (True, "Error: none left")
    assert found["structuredContent"]["error"] == {"type": "OutOfStock", "message": "none left"}


@pytest.mark.parametrize("status", ["running", "waiting", "paused"])
def test_an_action_that_is_not_done_is_no_error_and_says_where_its_result_will_be(status: Any) -> None:
    action = Action(ActionKind.METHOD_CALL, "search")
    found = call_result(unsettled(DEFINITION, store_session(), action, "a1", status))
    assert found.is_error is False
    (block,) = found.content
    assert "uaip://actions/a1" in block.model_dump()["text"]


def test_a_call_that_became_no_action() -> None:
    found = refused_result(session_not_found()).model_dump(by_alias=True, mode="json", exclude_none=True)
    assert (found["isError"], text(found)) == (True, "Session not found")
    assert found["structuredContent"] == {"detail": "Session not found"}
    conflict = refused_result(Refusal(Reason.KEY_CONFLICT, "used", {"key": "k"}))
    assert conflict.structured_content == {"detail": "used", "key": "k"}
