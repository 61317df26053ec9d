"""Reading a session: nothing is lost, and what is wrong is named by its JSON path."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.ids import derive_id
from perdure.uap.plan_steps import PlanStatus, PlanStep
from perdure.uap.session import Session, session
from perdure.uap.session_checkpoints import Checkpoint
from perdure.uap.session_document import read_session
from perdure.uap.session_json import SessionCheckpoint, SessionNode, SessionParts, session_json
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.timestamp import format_timestamp
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.usage import TokenUsage, empty_usage
from tests.conformance.uap_session_stage import WHEN, Talker, example
from tests.conformance.uap_session_stage import texts as texts_of
from tests.unit.upp.strategies import counts, json_objects, messages, texts

AT = "2026-01-06T17:27:01.500Z"


def loaded(document: JSONObject) -> Session:
    return Session.from_json(document, Talker().agent())


def with_state(**changes: Any) -> dict[str, Any]:
    document = cast("dict[str, Any]", example())
    document["checkpoints"][0]["state"].update(changes)
    return document


def with_checkpoint(**changes: Any) -> dict[str, Any]:
    document = cast("dict[str, Any]", example())
    document["checkpoints"][0].update(changes)
    return document


# What is kept


def test_a_document_is_kept_but_for_what_upp_adds() -> None:
    """The example's threads have no dates; all else comes out as it went in."""
    document = cast("dict[str, Any]", loaded(example()).to_json())
    for node in document["threadTree"]["nodes"]:
        del node["thread"]["createdAt"], node["thread"]["updatedAt"]
    assert document == example()


def test_the_text_of_a_document_is_read_too() -> None:
    made = Session.from_json(json.dumps(example()), Talker().agent())
    assert made.id == "sess_abc123"


def test_what_is_read_shares_nothing_with_the_document() -> None:
    document = cast("dict[str, Any]", example())
    made = loaded(document)
    document["metadata"]["task"] = "other"
    document["checkpoints"][0]["state"]["metadata"]["taskComplete"] = True
    assert made.metadata == {"task": "Implement feature X"}
    assert made.checkpoints[0].state.metadata == {"taskComplete": False}


async def test_what_is_written_shares_nothing_with_the_session() -> None:
    made = session(Talker().agent(), metadata={"a": {}})
    message = UserMessage("look", metadata={"mine": {}})
    await made.run(message)
    document = made.to_json()
    before = copy.deepcopy(document)
    assert message.metadata is not None
    message.metadata["mine"]["b"] = 1
    made.metadata["a"] = {"b": 1}
    made.thread_tree.root.metadata["a"] = 1
    made.checkpoints[0].state.metadata["a"] = 1
    assert document == before


@pytest.mark.parametrize("name", ["metadata"])
def test_optional_fields_of_a_session_may_be_absent_or_null(name: str) -> None:
    for change in ({}, {name: None}):
        document = {key: value for key, value in example().items() if key != name}
        assert loaded({**document, **change}).metadata == {}


@pytest.mark.parametrize("name", ["subAgentStates", "metadata"])
def test_optional_fields_of_a_checkpoint_may_be_absent_or_null(name: str) -> None:
    document = with_checkpoint(**{name: None})
    assert loaded(document).to_json()["checkpoints"] == example()["checkpoints"]
    del document["checkpoints"][0][name]
    assert loaded(document).to_json()["checkpoints"] == example()["checkpoints"]


def test_unknown_fields_are_ignored() -> None:
    assert loaded({**with_checkpoint(more=1), "more": 1}).id == "sess_abc123"


def test_a_plan_is_kept() -> None:
    steps = [
        PlanStep("step-1", "look", "look", [], PlanStatus.COMPLETED),
        PlanStep("step-2", "tell", None, ["step-1"], PlanStatus.PENDING),
    ]
    document = with_state(plan=[step.to_json() for step in steps])
    assert loaded(document).checkpoints[0].state.plan == steps
    assert loaded(document).to_json()["checkpoints"] == document["checkpoints"]


def test_an_empty_plan_is_not_no_plan() -> None:
    assert loaded(with_state(plan=[])).checkpoints[0].state.plan == []
    assert loaded(with_state(plan=None)).checkpoints[0].state.plan is None


@pytest.mark.parametrize("version", ["1.0.0", "1.7.12", "1.0.0-draft.2", "1.1.0+build"])
def test_every_version_of_uap_1_is_read(version: str) -> None:
    assert loaded({**example(), "version": version}).to_json()["version"] == "1.0.0"


async def test_what_the_json_of_a_state_has_no_field_for_is_kept() -> None:
    """Usage with its cycles, tool executions with their times, and whether the run is done."""
    made = session(Talker().agent())
    await made.run("look")
    for before, after in zip(made.checkpoints, loaded(made.to_json()).checkpoints, strict=True):
        assert after.state == before.state
    assert made.checkpoints[-1].state.tool_executions


def test_tool_executions_of_other_systems_are_what_the_messages_say() -> None:
    said = [
        UserMessage("go"),
        AssistantMessage("", [ToolCall("a", "look", {"word": "w"}), ToolCall("b", "look", {})]),
        ToolResultMessage([ToolResult("a", "seen"), ToolResult("b", "no word", is_error=True)]),
        AssistantMessage("", [ToolCall("c", "look", {})]),
    ]
    state = loaded(with_state(messages=[message.to_json() for message in said])).checkpoints[0].state
    assert state.tool_executions == [
        ToolExecution("look", "a", {"word": "w"}, "seen", is_error=False, duration_ms=0),
        ToolExecution("look", "b", {}, "no word", is_error=True, duration_ms=0),
    ]
    assert state.usage == empty_usage()


@pytest.mark.parametrize("name", ["usage", "cycles", "toolExecutions", "threadLength", "done", "current"])
async def test_metadata_of_other_systems_may_hold_anything(name: str) -> None:
    """It is kept, and of no effect."""
    document = with_checkpoint(metadata={name: ["x"]})
    made = loaded(document)
    assert made.to_json()["checkpoints"] == document["checkpoints"]
    await made.restore("cp_001")


async def test_a_checkpoint_of_another_system_is_restored_by_its_messages() -> None:
    """It does not say where its run began: with its first message, if that is in the thread; else after all."""
    made = loaded(example())
    await made.restore("cp_001")
    assert texts_of(made.thread_tree.history()) == ["hello", "hi"]
    other = loaded(with_state(messages=[UserMessage("other").to_json()]))
    await other.restore("cp_001")
    assert texts_of(other.thread_tree.history()) == ["hello", "hi", "other"]


async def test_the_checkpoint_that_was_restored_is_still_the_current_one() -> None:
    made = session(Talker().agent())
    await made.run("look")
    await made.run("two")
    assert "current" not in dumps(made.to_json()).decode().replace("currentId", "")
    await made.restore(made.checkpoints[0].id)
    again = loaded(made.to_json())
    assert again.current_checkpoint is again.checkpoints[0]
    assert again.to_json() == made.to_json()
    await again.run("three")
    assert again.current_checkpoint is again.checkpoints[-1]
    assert "current" not in dumps(again.to_json()).decode().replace("currentId", "")


def test_without_checkpoints_none_is_current() -> None:
    assert loaded({**example(), "checkpoints": []}).current_checkpoint is None


# What the durable host writes


states = st.builds(
    ExecutionState,
    step=st.integers(0, 100),
    messages=st.lists(messages, max_size=3),
    metadata=json_objects(),
    reasoning=st.lists(texts(), max_size=2),
    plan=st.none()
    | st.lists(st.builds(PlanStep, texts(), texts(), st.none() | texts(), st.lists(texts(), max_size=2))),
)


@settings(max_examples=50)
@given(states, json_objects(), texts())
def test_any_checkpoint_survives_its_json(state: ExecutionState, metadata: JSONObject, key: str) -> None:
    taken = Checkpoint("c", "sess_abc123", AT, state.step, "node_root", state, {key: example()}, metadata)
    document: JSONObject = {**example(), "checkpoints": [taken.to_json()]}
    (read,) = read_session(document).checkpoints.items
    assert read.to_json() == taken.to_json()
    assert replace(read.state, usage=state.usage, cycles=0, done=False, tool_executions=[]) == state


@settings(max_examples=25)
@given(st.lists(messages, max_size=2), counts(), json_objects())
def test_a_document_of_the_durable_host_is_read_and_written_again_the_same(
    said: list[UserMessage], count: int, metadata: JSONObject
) -> None:
    bodies = [message.to_json() for message in said]
    nodes = [
        SessionNode("root", None, "main", "t0", WHEN, bodies, metadata={**metadata}),
        SessionNode("branch", "root", None, "t1", WHEN, bodies, min(count, len(said))),
    ]
    usage = TokenUsage(count, 1, count + 1)
    record = CheckpointRecord(
        id="c", run="r", step=2, node="branch", position=3, start=0, at=AT, usage=usage.to_json(), cycles=2,
        metadata=metadata, plan=[PlanStep("1", "look").to_json()],
    )  # fmt: skip
    taken = SessionCheckpoint(record, bodies, len(said), ["thought"])
    parts = SessionParts(derive_id("s"), derive_id("a"), WHEN, WHEN, nodes, "branch", [taken], metadata)
    document = session_json(parts)
    made = loaded(document)
    assert made.to_json() == document
    assert dumps(made.to_json()) == dumps(document)
    assert made.checkpoints[0].state.usage == usage
    assert made.checkpoints[0].state.cycles == 2


# What is refused


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        if to is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = to

    return apply


FIRST = ("checkpoints", 0)
STATE = (*FIRST, "state")
BAD: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (change("version", to=...), "version: must be"),
    (change("version", to=1), "version: must be"),
    (change("version", to="2.0.0"), "version: is '2.0.0'"),
    (change("version", to="10.0.0"), "version: is '10.0.0'"),
    (change("version", to="1"), "version: is '1'"),
    (change("version", to="1.0.x"), "version: is '1.0.x'"),
    (change("id", to=...), "id: must be an id"),
    (change("id", to=""), "id: must be an id"),
    (change("agentId", to=7), "agentId: must be an id"),
    (change("createdAt", to=...), "createdAt: must be an ISO 8601 time"),
    (change("createdAt", to="yesterday"), "createdAt: timestamp"),
    (change("updatedAt", to="2024-01-15T10:30:00"), "updatedAt: timestamp"),
    (change("metadata", to=[]), "metadata: must be a JSON object"),
    (change("threadTree", to=...), "threadTree: must be a JSON object"),
    (change("threadTree", "currentId", to="nowhere"), "threadTree.currentId: there is no node"),
    (change("threadTree", "nodes", 1, "parentId", to="nowhere"), "threadTree.nodes[1].parentId: "),
    (change("threadTree", "nodes", 1, "thread", "messages", 0, "type", to="x"), "threadTree.nodes[1].thread: message"),
    (change("checkpoints", to=...), "checkpoints: must be a list"),
    (change("checkpoints", 0, to=None), "checkpoints[0]: must be a JSON object"),
    (change(*FIRST, "id", to=""), "checkpoints[0].id: must be an id"),
    (change(*FIRST, "sessionId", to="other"), "checkpoints[0].sessionId: is 'other'"),
    (change(*FIRST, "timestamp", to=0), "checkpoints[0].timestamp: must be"),
    (change(*FIRST, "step", to=...), "checkpoints[0].step: must be a whole number"),
    (change(*FIRST, "step", to=True), "checkpoints[0].step: must be a whole number"),
    (change(*FIRST, "threadId", to="thread_001"), "checkpoints[0].threadId: there is no node 'thread_001'"),
    (change(*FIRST, "metadata", to=1), "checkpoints[0].metadata: must be a JSON object"),
    (change(*FIRST, "subAgentStates", to=[]), "checkpoints[0].subAgentStates: must be a JSON object"),
    (change(*FIRST, "subAgentStates", to={"c": 1}), "checkpoints[0].subAgentStates['c']: must be a JSON object"),
    (change(*FIRST, "subAgentStates", to={"c": {}}), "checkpoints[0].subAgentStates['c'].version: must be"),
    (change(*STATE, to=...), "checkpoints[0].state: must be a JSON object"),
    (change(*STATE, "step", to=-1), "checkpoints[0].state.step: must be a whole number"),
    (change(*STATE, "messages", to=...), "checkpoints[0].state.messages: must be a list"),
    (change(*STATE, "messages", 1, "timestamp", to=...), "checkpoints[0].state.messages[1]: message"),
    (change(*STATE, "metadata", to=...), "checkpoints[0].state.metadata: must be a JSON object"),
    (change(*STATE, "reasoning", to=["a", 1]), "checkpoints[0].state.reasoning: must be a list of texts"),
    (change(*STATE, "reasoning", to="a"), "checkpoints[0].state.reasoning: must be a list"),
    (change(*STATE, "plan", to={}), "checkpoints[0].state.plan: must be a list"),
    (change(*STATE, "plan", to=[{"id": "1"}]), "checkpoints[0].state.plan[0]: plan step"),
]


@pytest.mark.parametrize(("spoil", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_a_bad_document_is_refused_by_the_path_of_what_is_wrong(
    spoil: Callable[[dict[str, Any]], None], problem: str
) -> None:
    document = cast("dict[str, Any]", example())
    spoil(document)
    with pytest.raises(InvalidInput) as raised:
        loaded(document)
    assert str(raised.value).startswith(problem)


def test_two_checkpoints_of_one_id_are_refused() -> None:
    document = cast("dict[str, Any]", example())
    document["checkpoints"] *= 2
    with pytest.raises(InvalidInput, match=r"^checkpoints\[1\].id: two checkpoints have the id 'cp_001'"):
        loaded(document)


@pytest.mark.parametrize("value", [None, [], 1, "", "{", "[]", "\ud800", '{"version": NaN}'])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^session: must be"):
        Session.from_json(value, Talker().agent())


def test_what_is_nested_without_end_is_refused() -> None:
    deep: JSONObject = {}
    for _ in range(5000):
        deep = {"x": deep}
    with pytest.raises(InvalidInput, match="nested"):
        loaded({**example(), "metadata": deep})
    inner = example()
    for _ in range(30):
        inner = cast(JSONObject, with_checkpoint(subAgentStates={"c": inner}))
    assert loaded(inner).to_json()["checkpoints"] == inner["checkpoints"]


def _inside(value: Any) -> list[tuple[Any, str | int]]:
    """The places in an object or a list."""
    if isinstance(value, dict):
        return [(value, key) for key in cast("dict[str, Any]", value)]
    return [(value, index) for index in range(len(cast("list[Any]", value)))] if isinstance(value, list) else []


@settings(max_examples=200)
@given(st.data())
def test_whatever_is_spoiled_is_read_or_refused(data: st.DataObject) -> None:
    """Never another error, whatever stands wherever."""
    document: Any = with_state(plan=[PlanStep("1", "look").to_json()])
    places: list[tuple[Any, str | int]] = [(document, "id")]
    for _ in range(data.draw(st.integers(1, 6))):
        inside = _inside(places[-1][0][places[-1][1]] if len(places) > 1 else document)
        if not inside:
            break
        places.append(data.draw(st.sampled_from(inside)))
    place, key = places[-1]
    place[key] = data.draw(st.sampled_from([None, True, -1, 0.5, "", "x", [], {}, [None], {"x": None}]))
    try:
        made = loaded(document)
    except InvalidInput:
        return
    assert loaded(made.to_json()).to_json() == made.to_json()


def test_times_are_kept_to_the_letter() -> None:
    text = "2024-01-15T11:30:00.123456+01:00"
    document = with_checkpoint(timestamp=text) | {"createdAt": text, "updatedAt": text}
    written = cast("dict[str, Any]", loaded(document).to_json())
    assert (written["createdAt"], written["updatedAt"], written["checkpoints"][0]["timestamp"]) == (text, text, text)


async def test_new_times_are_utc_to_the_millisecond() -> None:
    made = session(Talker().agent())
    await made.run("one")
    document = made.to_json()
    for text in (document["createdAt"], document["updatedAt"], made.checkpoints[0].timestamp):
        assert len(str(text)) == len(format_timestamp(WHEN))
        assert str(text).endswith("Z")
