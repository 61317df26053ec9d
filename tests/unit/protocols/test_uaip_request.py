"""Requests of UAIP, read in the specification's order of checks."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uaip.request import (
    RequestRefused,
    read_action,
    read_initialize,
    read_key,
    read_target,
)
from perdure.uaip.action import Action, ActionKind

SESSION = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"


def refusal(header: str | None, body: Any) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(RequestRefused) as caught:
        read_action(read_target(header, data).body)
    assert caught.value.code == caught.value.refusal.reason.value
    return caught.value.refusal.status, caught.value.refusal.detail


def execute(**members: Any) -> dict[str, Any]:
    return {"workflow_name": "store", **members}


def test_whom_an_action_is_for_is_known_before_what_it_is() -> None:
    """The workflow and the session are looked for first."""
    target = read_target(f" {SESSION} ", json.dumps(execute()).encode())
    assert (target.session_id, target.workflow_name, target.body) == (SESSION, "store", execute())


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\xff", execute()])
@pytest.mark.parametrize("header", [None, "", " "])
def test_the_header_is_checked_first(header: str | None, body: Any) -> None:
    assert refusal(header, body) == (400, "Missing X-Session-Id header")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"x"', b"null", b"7", b"\xff", b'{"a":NaN}', b'{"a":1e999}', b"[" * 9999]
)
def test_a_body_that_is_no_object(body: bytes) -> None:
    """Text alone says so, to both endpoints."""
    status, detail = refusal(SESSION, body)
    assert (status, detail.partition(":")[0]) == (400, "Invalid JSON body")
    with pytest.raises(RequestRefused, match="Invalid JSON body"):
        read_initialize(body)


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({}, 400, "Missing 'workflow_name'"),
        ({"workflow_name": ""}, 400, "Missing 'workflow_name'"),
        ({"workflow_name": None}, 400, "Missing 'workflow_name'"),
        ({"workflow_name": 7}, 400, "'workflow_name' must be a string"),
        (execute(), 400, "Missing 'action'"),
        (execute(action=None), 400, "Missing 'action'"),
        (execute(action=[]), 400, "'action' must be a string"),
        (execute(action="fly"), 422, "Unknown action type: fly"),
        (execute(action="METHOD_CALL"), 422, "Unknown action type: METHOD_CALL"),
        (execute(action="method_call"), 400, "Missing 'task'"),
        (execute(action="method_call", task=7), 400, "'task' must be a string"),
        (execute(action="method_call", task="a", args=[]), 400, "'args' must be an object"),
        (execute(action="method_call", task="a", args=None), 400, "'args' must be an object"),
        (execute(action="stage_transition"), 400, "Missing 'stage'"),
        (execute(action="stage_transition", stage={}), 400, "'stage' must be a string"),
        (execute(action="state_input"), 400, "Missing 'state_updates'"),
        (execute(action="state_input", state_updates="x"), 400, "'state_updates' must be an object"),
        (execute(action="state_input", state_updates=None), 400, "'state_updates' must be an object"),
        (execute(action="terminate_session", reason=7), 400, "'reason' must be a string"),
    ],
)
def test_a_request_that_is_refused(body: dict[str, Any], status: int, detail: str) -> None:
    assert refusal(SESSION, body) == (status, detail)


@pytest.mark.parametrize(
    ("body", "action"),
    [
        (execute(action="method_call", task="a"), Action(ActionKind.METHOD_CALL, "a")),
        (
            execute(action="method_call", task="a", args={"x": None}, more=1),
            Action(ActionKind.METHOD_CALL, "a", arguments={"x": None}),
        ),
        (execute(action="stage_transition", stage="b"), Action(ActionKind.STAGE_TRANSITION, "b")),
        (
            execute(action="state_input", state_updates={"user.email": "e", "n": None}),
            Action(ActionKind.STATE_INPUT, updates={"user.email": "e", "n": None}),
        ),
        (execute(action="terminate_session"), Action(ActionKind.TERMINATE_SESSION)),
        (execute(action="terminate_session", reason="r"), Action(ActionKind.TERMINATE_SESSION, reason="r")),
        (execute(action="handshake"), Action(ActionKind.HANDSHAKE)),
    ],
)
def test_a_request_is_an_action(body: dict[str, Any], action: Action) -> None:
    assert read_action(body) == action


def test_initialize_names_a_workflow() -> None:
    assert read_initialize(b'{"workflow_name": "a b"}') == "a b"
    with pytest.raises(RequestRefused, match="Missing 'workflow_name'"):
        read_initialize(b"{}")


def test_text_becomes_valid_unicode() -> None:
    """A surrogate alone is replaced, a pair is its character."""
    assert read_initialize(b'{"workflow_name": "\\ud83c \\ud83c\\udf78"}') == "\ufffd \U0001f378"


@given(st.binary(max_size=40), st.none() | st.text(max_size=3))
def test_no_bytes_are_anything_but_read_or_refused(data: bytes, header: str | None) -> None:
    with suppress(RequestRefused):
        read_action(read_target(header, data).body)


def test_an_idempotency_key_is_printable() -> None:
    assert read_key(None) is None
    assert read_key("k" * 200) == "k" * 200
    for key in ("", "k" * 201, "a\nb"):
        with pytest.raises(RequestRefused, match="must be 1 to 200 printable characters"):
            read_key(key)
