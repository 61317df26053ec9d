"""The OpenAPI document: what it promises is what the server does, whatever is sent."""

from __future__ import annotations

import asyncio
import uuid
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
from tests.integration.door_stages import DESK
from tests.integration.kept_proposals import keep_proposal
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.stage_door import SESSION, desk_worker
from tests.integration.test_api_runs import scripted
from tests.scale import scaled

JSON, BYTES = "application/json", "application/octet-stream"
EXAMPLES = scaled(100)
SHORT_S = 0.2
_FAILURES, _CONFORMANCE = cast(Any, any_checks), cast(Any, checks)
CHECKS = [
    _FAILURES.not_a_server_error,
    _CONFORMANCE.content_type_conformance,
    _CONFORMANCE.response_schema_conformance,
    _CONFORMANCE.status_code_conformance,
]
NEVER_ENDING = (
    "streamSessionEvents",
    "streamRunEvents",
    "streamStageSessionEvents",
    "chat",
    "resumeChat",
    "streamEvents",
    "streamDeltas",
)
DOCUMENT = create_app(
    Backend(ServerAddresses("127.0.0.1:1", "postgresql://nobody@127.0.0.1:1/none")), Settings()
).openapi()
OPERATIONS: dict[str, Any] = {
    result.ok().definition.raw["operationId"]: result.ok()
    for result in cast(Any, schemathesis.openapi.from_dict(DOCUMENT)).get_all_operations()
}


@pytest.fixture(scope="module")
def api(stack: Stack, steady_worker: WorkerProcess) -> Iterator[ApiProcess]:
    """A server that no test kills, with agents and stage workflows."""
    with desk_worker(stack):
        process = ApiProcess(stack).wait_ready()
        yield process
        process.kill()


@pytest.fixture(scope="module")
def known(stack: Stack, api: ApiProcess) -> dict[str, str]:
    """Ids of what is there, so that requests get further than to what is not."""
    return things_of(api, stack)


def things_of(api: ApiProcess, stack: Stack) -> dict[str, str]:
    """What there is, by the names of its ids.

    A session with two branches and two checkpoints, a run that waits for its client's tool, a stage session in which an
    action waits for a person, one in which none does, and a proposal of another agent.
    """
    with httpx.Client(base_url=f"{api.url}/api", timeout=90) as client:
        script = scripted([{"tool": "huge", "arguments": {"size": 1}}], "Hello.")
        done = checked(client.post("/runs", json={"agent": "actor", "input": script, "mode": "wait"}))
        session = f"/sessions/{done['session']}"
        places = checked(client.get(f"{session}/checkpoints"))["checkpoints"]
        root = checked(client.get(f"{session}/tree"))["root"]
        branch = checked(client.post(f"{session}/fork", json={"name": "b"}))["node"]
        options = {"client_tools": [{"name": "ask", "description": "Ask.", "parameters": {"type": "object"}}]}
        script = scripted([{"tool": "ask"}], "Thanks.")
        body = {"agent": "actor", "input": script, "options": options, "mode": "wait", "wait_s": 60}
        parked = checked(client.post("/runs", json=body), 202)
        stored = checked(client.post("/content", content=b"media", headers={"content-type": "text/plain"}), 201)
        (wait,) = checked(client.get("/waits", params={"session": parked["session"]}))["waits"]
    with httpx.Client(base_url=api.url, timeout=90) as client:
        waiting, idle = (checked(client.post("/initialize", json={"workflow_name": DESK})) for _ in range(2))
        spend = {"workflow_name": DESK, "action": "method_call", "task": "spend", "args": {"amount": 1}}
        asked = checked(client.post("/execute", json=spend, headers={SESSION: waiting["session_id"]}))
    stages = {"stage_session": waiting["session_id"], "action_id": asked["action_id"], SESSION: idle["session_id"]}
    ids = {
        "session": done["session"],
        "chat": done["session"],
        "run": parked["run"],
        "wait": wait["wait"],
        "call_id": wait["asked"]["call"],
        "proposal": asyncio.run(_proposal(stack)),
    }
    tree = {"checkpoint": places[0]["checkpoint"], "node": branch, "source": branch, "target": root}
    return {
        **ids,
        **tree,
        **stages,
        "content_id": stored["content_id"],
        "agent": "talker",
        "model": "talker",
        "workflow_name": DESK,
        "name": DESK,
    }


async def _proposal(stack: Stack) -> str:
    async with stack.connect() as sessions:
        return await keep_proposal(sessions.database, sessions.tenant, "Shall we merge on Friday?")


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
            if case.path.startswith(
                "/v1/"
            ):  # what the document says of a stream's text would be taken for each event's
                values["stream"] = False


def _aim(case: Any, known: dict[str, str]) -> None:
    """Let a request mean what is there, unless it would delete what the others need."""
    if case.method == "DELETE":
        return
    named = named_of(case.path, known)
    for given_values in (case.path_parameters, case.query, case.body):
        if isinstance(given_values, dict):
            values = cast("dict[str, Any]", given_values)
            values.update({name: named[name] for name in named.keys() & values.keys()})
    if SESSION in (case.headers or {}) and SESSION in named:
        case.headers[SESSION] = named[SESSION]


def named_of(path: str, known: dict[str, str]) -> dict[str, str]:
    """The ids as a path means them."""
    if path.startswith(("/v1/", "/events")):  # another door's sessions are not meant
        return {name: value for name, value in known.items() if name != SESSION}
    return {**known, "session": known["stage_session"]} if path.startswith("/api/stage-sessions") else known


LAST = (
    "answerWait", "giveToolResult", "cancelRun", "deleteSession", "importSession",
    "answerStageAction", "terminateStageSession", "deleteStageSession", "deleteContent",
)  # fmt: skip
"""What others need is gone after these; the session that was deleted is imported again."""
ANSWERED = ("giveToolResult", "payRun")
"""A wait is answered once, here by `answerWait`; and no agent here is paid for, see `test_payment_routes`."""
SWITCHED_OFF = ("encodePayloads", "decodePayloads", "postEnvelope")
"""Without keys of encryption there is nothing to decode, and envelopes are taken over TLS alone."""


def test_every_operation_does_what_its_examples_say(stack: Stack, api: ApiProcess) -> None:
    """With ids of what is there, each operation succeeds with one of its documented bodies at least, and answers as documented."""
    known = things_of(api, stack)
    document = checked(httpx.get(f"{api.url}/api/sessions/{known['session']}/export", timeout=60))
    order = sorted(OPERATIONS, key=lambda name: LAST.index(name) if name in LAST else -1)

    def works(name: str) -> bool:
        bodies = [{"agent": "actor", "document": document}] if name == "importSession" else examples_of(name, known)
        return any(_succeeds(api, name, body, known) for body in bodies)

    assert [name for name in order if name not in (*NEVER_ENDING, *ANSWERED, *SWITCHED_OFF) and not works(name)] == []


def examples_of(name: str, known: dict[str, str]) -> list[Any]:
    """The documented bodies of an operation, with ids of what is there; None if it takes none."""
    body = OPERATIONS[name].definition.raw.get("requestBody")
    if body is None:
        return [None]
    if JSON not in body["content"]:
        return [media["example"].encode() for kind, media in body["content"].items() if kind == BYTES]
    schema = body["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
    examples = DOCUMENT["components"]["schemas"][schema]["examples"]
    made = {**known, "session": str(uuid.uuid4())}  # of a body: the session that is to be opened
    return [{key: _made(made, key, value) for key, value in example.items()} for example in examples]


def _made(made: dict[str, str], key: str, value: Any) -> Any:
    """An id in place of one of the example's, and of nothing else of the same name."""
    return made.get(key, value) if isinstance(value, str) else value


def _succeeds(api: ApiProcess, name: str, body: Any, known: dict[str, str]) -> bool:
    operation = OPERATIONS[name]
    named = named_of(operation.path, known)
    paths = {item.name: named[item.name] for item in operation.path_parameters}
    headers = {item.name: named[item.name] for item in operation.headers if item.name in named}
    sent = {} if body is None else {"body": body, "media_type": BYTES if isinstance(body, bytes) else JSON}
    case = operation.Case(path_parameters=paths, headers=headers, **sent)
    _hasten(case)
    response = case.call(base_url=api.url, timeout=60)
    case.validate_response(response, checks=CHECKS)
    return 200 <= response.status_code < 300


def test_the_server_gives_the_document(api: ApiProcess) -> None:
    """The one that the tests here are made from."""
    assert checked(httpx.get(f"{api.url}/api/openapi.json", timeout=60)) == DOCUMENT


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
            if body is not None and JSON not in body["content"]:
                assert all(media["example"] for media in body["content"].values()), where
            elif body is not None:
                name = body["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
                assert document["components"]["schemas"][name]["examples"], where
            if path.startswith("/api/"):
                assert {"401", "403", "404", "422", "503"} <= set(operation["responses"]), where
