"""What `/execute`, `/initialize` and `GET /api/workflows/{name}` answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from perdure.protocols.uaip.models import ExecuteResponse
from perdure.protocols.uaip.reply import Reply, refused, unsettled
from perdure.protocols.uaip.schema import initialize_response, workflow_schema
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.refusal import STATUSES, Reason, Refusal, session_not_found, workflow_not_found
from tests.unit.uaip.served_session import ServedSession
from tests.unit.uaip.stage_store import DEFINITION, SESSION, Store, store_session

COMMON = {
    *("status", "action", "action_id", "session_id", "workflow", "current_stage", "terminal", "content", "tools"),
    "transitions",
}


@pytest.fixture
def served() -> ServedSession:
    return ServedSession.open(Store)


def execute(served: ServedSession, action: str, **members: Any) -> Reply:
    return served.execute(SESSION, {"workflow_name": "store", "action": action, **members})


def go(served: ServedSession, *stages: str) -> None:
    for stage in stages:
        assert execute(served, "stage_transition", stage=stage).status == 200


def tools(reply: Reply) -> list[str]:
    found: Any = reply.body["tools"]
    return [tool["name"] for tool in found]


def test_a_task_that_returned(served: ServedSession) -> None:
    reply = execute(served, "method_call", task="search", args={"query": "pen", "limit": 1})
    assert reply.status == 200
    assert set(reply.body) == COMMON | {"task", "result"}
    assert (reply.body["status"], reply.body["task"]) == ("ok", "search")
    assert reply.body["result"] == [{"sku": "pen-0", "price": 0.5}]
    assert reply.body["content"] == (
        "Task 'search' executed successfully.\n\nResult:\n" + '[{"sku":"pen-0","price":0.5}]'
    )
    assert (reply.body["current_stage"], reply.body["terminal"], reply.body["transitions"]) == (
        "browse",
        False,
        ["select"],
    )
    assert (reply.body["session_id"], reply.body["workflow"], reply.body["action_id"]) == (SESSION, "store", "1")


def test_the_tools_are_those_of_the_stage_with_their_schemas(served: ServedSession) -> None:
    reply = execute(served, "handshake")
    assert (reply.body["content"], reply.body["action"]) == ("Session started successfully.", "handshake")
    assert tools(reply) == ["search", "transition_stage", "terminate_session"]
    shown: Any = reply.body["tools"]
    schema: Any = workflow_schema(DEFINITION)["stages"]
    assert shown[0]["input_schema"] == schema["browse"]["tasks"]["search"]["parameters"]
    for tool in shown:
        Draft202012Validator.check_schema(tool["input_schema"])


def test_a_result_of_nothing_is_null(served: ServedSession) -> None:
    go(served, "select")
    reply = execute(served, "method_call", task="add", args={"sku": "x"})
    assert reply.body["result"] == 1
    failed = execute(served, "method_call", task="fail")
    assert failed.status == 200
    assert failed.body["error"] == {"type": "OutOfStock", "message": "none left"}
    assert (failed.body["status"], failed.body["content"]) == ("error", "Error: none left")
    assert "result" not in failed.body


def test_a_transition(served: ServedSession) -> None:
    reply = execute(served, "stage_transition", stage="select")
    assert (reply.status, reply.body["from_stage"], reply.body["to_stage"]) == (200, "browse", "select")
    assert reply.body["content"] == "Successfully transitioned from 'browse' to 'select'."
    assert tools(reply) == ["add", "fail", "transition_stage", "terminate_session"]


def test_a_transition_that_is_no_edge(served: ServedSession) -> None:
    reply = execute(served, "stage_transition", stage="done")
    assert reply.status == 422
    assert reply.body["detail"] == "Cannot transition from 'browse' to 'done'"
    assert reply.body["allowed"] == ["select"]
    assert reply.body["content"] == "Error: Cannot transition from 'browse' to 'done'\n\nAllowed options: select"
    assert reply.body["current_stage"] == "browse"


def test_missing_prerequisites_ask_for_them(served: ServedSession) -> None:
    go(served, "select")
    reply = execute(served, "stage_transition", stage="checkout")
    assert reply.status == 422
    assert reply.body["detail"] == "To transition to 'checkout', please provide: cart.items, user.email"
    assert (reply.body["status"], reply.body["missing"]) == ("input_required", ["cart.items", "user.email"])
    assert (reply.body["target_stage"], reply.body["current_stage"]) == ("checkout", "select")
    assert tools(reply) == ["provide_state"]
    content = reply.body["content"]
    assert isinstance(content, str)
    example = json.loads(content.rpartition("format:\n")[2])
    assert example == {"action": "state_input", "state_updates": {"cart.items": "value", "user.email": "value"}}
    assert reply.as_reference() == Reply(200, reply.body)


def test_state_input(served: ServedSession) -> None:
    reply = execute(served, "state_input", state_updates={"user.email": "e", "x": None})
    assert (reply.status, reply.body["updated"]) == (200, ["user.email", "x"])
    assert reply.body["content"] == "State populated successfully."
    assert served.values == {"user.email": "e", "x": None}


def test_a_terminal_stage_has_tasks_and_no_way_on(served: ServedSession) -> None:
    execute(served, "state_input", state_updates={"cart.items": [], "user.email": "e"})
    go(served, "select", "checkout", "done")
    reply = execute(served, "method_call", task="receipt")
    assert (reply.body["result"], reply.body["terminal"], reply.body["transitions"]) == ("thank you", True, [])
    assert tools(reply) == ["receipt", "terminate_session"]


def test_a_session_ends(served: ServedSession) -> None:
    reply = execute(served, "terminate_session", reason="done")
    assert (reply.status, reply.body["status"], reply.body["session_id"]) == (200, "terminated", SESSION)
    assert (reply.body["tools"], reply.body["transitions"]) == ([], [])
    assert execute(served, "handshake") == Reply(404, {"detail": "Session not found"})


def test_arguments_that_do_not_fit(served: ServedSession) -> None:
    reply = execute(served, "method_call", task="search", args={"query": 7})
    assert reply.status == 422
    assert reply.body["errors"] == ["$.query: 7 is not of type 'string'"]
    assert reply.body["detail"] == "Invalid arguments for task 'search': $.query: 7 is not of type 'string'"


def test_a_task_of_another_stage(served: ServedSession) -> None:
    reply = execute(served, "method_call", task="pay")
    assert (reply.status, reply.body["detail"]) == (422, "Task 'pay' not found in stage 'browse'")
    assert (reply.body["available"], reply.body["content"]) == (
        ["search"],
        "Error: Task 'pay' not found in stage 'browse'",
    )
    assert reply.as_reference().status == 200


def test_what_a_reference_client_must_see_stays_an_error(served: ServedSession) -> None:
    """Only a refused action is 200 for it, no refused request."""
    assert execute(served, "fly").as_reference().status == 422
    assert refused(session_not_found()).as_reference().status == 404


def test_an_action_that_is_not_done_yet() -> None:
    action = Action(ActionKind.METHOD_CALL, "search")
    for status in ("running", "waiting", "paused"):
        reply = unsettled(DEFINITION, store_session(), action, "a1", status)
        assert (reply.status, reply.body["status"], reply.body["action_id"]) == (200, status, "a1")
        assert set(reply.body) == COMMON | {"task"}


def test_every_reason_has_a_status() -> None:
    assert set(STATUSES) == set(Reason)
    assert {reason for reason, status in STATUSES.items() if status == 404} == {
        Reason.WORKFLOW_NOT_FOUND,
        Reason.SESSION_NOT_FOUND,
    }


def test_a_refused_request_has_its_detail_and_no_more_than_it_needs() -> None:
    assert refused(workflow_not_found("nope")) == Reply(404, {"detail": "Workflow not found: nope"})
    made = refused(Refusal(Reason.INVALID_ARGUMENTS, "no \ud83c", {"errors": ["a"]}))
    assert made == Reply(422, {"detail": "no \ufffd", "errors": ["a"]})


def test_replies_fit_their_model(served: ServedSession) -> None:
    """Which is what the API's document shows."""
    for reply in (
        execute(served, "handshake"),
        execute(served, "method_call", task="search", args={"query": "x"}),
        execute(served, "stage_transition", stage="select"),
        execute(served, "method_call", task="fail"),
        execute(served, "state_input", state_updates={"a": 1}),
    ):
        assert ExecuteResponse.model_validate(reply.body).to_json() == reply.body


def test_initialize_lists_stages_as_declared() -> None:
    assert initialize_response(DEFINITION, SESSION) == {
        "session_id": SESSION,
        "workflow": "store",
        "initial_stage": "browse",
        "stages": ["browse", "select", "checkout", "done"],
    }


def test_the_schema_has_all_keys_of_the_specification() -> None:
    shown: Any = workflow_schema(DEFINITION)
    assert {"name", "description", "initial_stage", "stages"} == set(shown)
    assert list(shown["stages"]) == ["browse", "select", "checkout", "done"]
    for name, stage in shown["stages"].items():
        assert set(stage) == {"name", "description", "tasks", "transitions", "prerequisites"}
        assert stage["name"] == name
        for task_name, task in stage["tasks"].items():
            assert {"name", "description", "parameters"} <= set(task)
            assert task["name"] == task_name
            Draft202012Validator.check_schema(task["parameters"])
    assert shown["stages"]["done"]["transitions"] == []
    assert shown["stages"]["checkout"]["prerequisites"] == ["cart.items", "user.email"]
    assert shown["stages"]["done"]["tasks"]["receipt"]["returns"] == {"type": "string"}
