"""UAIP's conformance checks 10 to 14: the schema of a workflow. The first line of each says what the reference asks for."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from tests.conformance.uaip_replies import expect
from tests.conformance.uaip_server import UaipClient
from tests.conformance.uaip_store import SECOND

STAGES = ["browse", "select", "checkout", "done"]


async def test_check_10_the_schema_has_all_members_at_each_level(uaip: UaipClient) -> None:
    """The schema has every member of the specification at each level; a stage's key is its name."""
    schema = expect(await uaip.schema(), 200)
    assert {"name", "description", "initial_stage", "stages"} <= set(schema)
    assert schema["name"] == uaip.name("store")
    assert list(schema["stages"]) == STAGES
    for key, stage in schema["stages"].items():
        assert {"name", "description", "tasks", "transitions"} <= set(stage)
        assert stage["name"] == key
        for name, task in stage["tasks"].items():
            assert {"name", "description", "parameters"} <= set(task)
            assert task["name"] == name


async def test_check_11_transitions_are_lists(uaip: UaipClient) -> None:
    """`transitions` is a list in every stage, and empty in a terminal one."""
    stages = expect(await uaip.schema(), 200)["stages"]
    assert {name: stage["transitions"] for name, stage in stages.items()} == {
        "browse": ["select"],
        "select": ["browse", "checkout"],
        "checkout": ["done"],
        "done": [],
    }


async def test_check_12_parameters_are_json_schema(uaip: UaipClient) -> None:
    """`parameters` is JSON Schema 2020-12 of type object, with the right `required` and defaults, without self and state."""
    stages = expect(await uaip.schema(), 200)["stages"]
    found: dict[str, Any] = {}
    for stage in stages.values():
        for name, task in stage["tasks"].items():
            parameters = task["parameters"]
            Draft202012Validator.check_schema(parameters)
            assert parameters["type"] == "object"
            assert not {"self", "state"} & set(parameters.get("properties", {}))
            found[name] = parameters
    search = found["search"]
    assert search["required"] == ["query"]
    assert {name: shown["type"] for name, shown in search["properties"].items()} == {
        "query": "string",
        "limit": "integer",
    }
    assert search["properties"]["limit"]["default"] == 3
    assert sorted(found["mark"]["required"]) == ["label", "times"]
    assert not found["where"].get("required")


async def test_check_13_names_of_workflows_in_an_address(uaip: UaipClient) -> None:
    """The schema of an unknown workflow is 404 with `detail`; names that need percent-encoding work."""
    for name in ("no such workflow", "st%6Fre", "..", "store/"):
        expect(await uaip.schema(name), 404)
    assert expect(await uaip.schema(SECOND), 200)["name"] == uaip.name(SECOND)


async def test_check_14_sessions_change_no_schema(uaip: UaipClient) -> None:
    """The schema is the same before and after transitions of sessions."""
    before = expect(await uaip.schema(), 200)
    session = await uaip.open_in("select")
    await session.result("add_to_cart", product_id="SKU-001")
    assert expect(await uaip.schema(), 200) == before
