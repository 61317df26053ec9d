"""What an MCP client can read, and what it is told when it comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.protocols.mcp.instructions import instructions
from perdure.protocols.mcp.resources import RESOURCES, TEMPLATES, action_of_uri, action_uri, session_document
from tests.unit.uaip.stage_store import DEFINITION, SESSION, store_session


def test_a_session_is_shown_without_its_values() -> None:
    session = replace(store_session(), stage="select", sizes={"cart.items": 12})
    assert session_document(DEFINITION, session) == {
        "session_id": SESSION,
        "workflow": "store",
        "status": "open",
        "current_stage": "select",
        "description": "Fill the cart.",
        "terminal": False,
        "tools": ["add", "fail", "transition_stage", "terminate_session"],
        "ways_on": [{"stage": "browse", "missing": []}, {"stage": "checkout", "missing": ["user.email"]}],
    }


def test_an_actions_address_says_which_it_is() -> None:
    assert action_of_uri(action_uri("a1")) == "a1"
    assert TEMPLATES[0].uri_template == action_uri("{action_id}")


@pytest.mark.parametrize("uri", ["uaip://actions/", "uaip://session", "uaip://actionsx", ""])
def test_other_addresses_name_no_action(uri: str) -> None:
    assert action_of_uri(uri) is None


def test_the_instructions_name_the_workflow_and_the_session() -> None:
    told = instructions(DEFINITION, SESSION)
    assert told.startswith("store: Buy things.\n")
    assert f"Stage session: {SESSION}." in told
    assert all(resource.uri in told for resource in RESOURCES[:1])
    assert instructions(replace(DEFINITION, description=""), SESSION).startswith("store\n")
