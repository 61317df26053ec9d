"""The OpenAPI document: what it promises is what the server does, whatever is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import checks as any_checks
from schemathesis.specs.openapi import checks

from perdure.api.app import create_app
from perdure.api.backend import Backend
from perdure.config import Settings
from perdure.runtime.addresses import ServerAddresses
from tests.integration.api_server import ApiProcess, checked
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_api_runs import scripted
from tests.scale import scaled

EXAMPLES = scaled(100)
SHORT_S = 0.2
_FAILURES, _CONFORMANCE = cast(Any, any_checks), cast(Any, checks)
CHECKS = [
    _FAILURES.not_a_server_error,
    _CONFORMANCE.content_type_conformance,
    _CONFORMANCE.response_schema_conformance,
    _CONFORMANCE.status_code_conformance,
]
NEVER_ENDING = ("streamSessionEvents", "streamRunEvents")
DOCUMENT = create_app(
    Backend(ServerAddresses("127.0.0.1:1", "postgresql://nobody@127.0.0.1:1/none")), Settings()
).openapi()
OPERATIONS: dict[str, Any] = {
    result.ok().definition.raw["operationId"]: result.ok()
    for result in cast(Any, schemathesis.openapi.from_dict(DOCUMENT)).get_all_operations()
}


@pytest.fixture(scope="module")
def api(stack: Stack, steady_worker: WorkerProcess) -> Iterator[ApiProcess]:
    """A server that no test kills."""
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def known(api: ApiProcess) -> dict[str, str]:
    """Ids of what is there, so that requests get further than to what is not."""
    body = {"agent": "actor", "input": scripted("Hello."), "mode": "wait"}
    run = checked(httpx.post(f"{api.url}/api/runs", json=body, timeout=60))
    return {"run": run["run"], "session": run["session"]}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """As the server gives it."""
    return DOCUMENT


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in NEVER_ENDING])
def test_no_request_makes_the_server_fail(api: ApiProcess, known: dict[str, str], name: str) -> None:
    """Requests made from the document, right and wrong ones: never a 5xx, and answers as the document says."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=OPERATIONS[name].as_strategy(), is_aimed=st.booleans())
    def probe(case: Any, is_aimed: bool) -> None:
        if is_aimed:
            _aim(case, known)
        _hasten(case)
        response = case.call(base_url=api.url, timeout=60)
        case.validate_response(response, checks=CHECKS)

    probe()


def _hasten(case: Any) -> None:
    """Let no request wait for long."""
    for given_values in (case.query, case.body):
        if isinstance(given_values, dict):
            values = cast("dict[str, Any]", given_values)
            if values.get("mode") in ("wait", "stream"):
                values.update(mode="wait", wait_s=SHORT_S)
            if isinstance(values.get("wait_s"), float | int):
                values["wait_s"] = min(values["wait_s"], SHORT_S)


def _aim(case: Any, known: dict[str, str]) -> None:
    """Let a request mean what is there, unless it would delete what the others need."""
    parameters = cast("dict[str, Any]", case.path_parameters or {})
    if case.method == "DELETE":
        return
    for name, value in known.items():
        if name in parameters:
            parameters[name] = value


def test_the_server_gives_the_document(api: ApiProcess) -> None:
    """The one that the tests here are made from."""
    assert checked(httpx.get(f"{api.url}/api/openapi.json")) == DOCUMENT


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    """Each example of a body is one that its schema takes."""
    schemas = document["components"]["schemas"]
    found = 0
    for schema in schemas.values():
        validator: Any = Draft202012Validator({**schema, "components": document["components"]})
        for example in schema.get("examples", []):
            validator.validate(example)
            found += 1
    assert found > 10


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    """And every operation a description, and problems as it may answer."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation["description"], where
            body = operation.get("requestBody")
            if body is not None:
                name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert document["components"]["schemas"][name]["examples"], where
            if path.startswith("/api/"):
                assert {"401", "403", "404", "422", "503"} <= set(operation["responses"]), where
