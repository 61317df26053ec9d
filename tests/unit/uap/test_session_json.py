"""A session as one document: the specification's form, equal for equal parts, and read back without loss."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.ids import derive_id, is_uuid4
from perdure.uap.session_json import SessionCheckpoint, SessionNode, SessionParts, session_json
from perdure.upp.json_value import JSONObject, dumps, loads
from perdure.upp.messages import Message, UserMessage, message_from_json
from perdure.upp.thread import Thread
from tests.unit.upp.strategies import counts, json_objects, messages, moments, texts

WHEN = datetime(2026, 1, 6, 17, 27, 0, 999_999, tzinfo=UTC)
AT = "2026-01-06T17:27:01.500Z"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


def said(*given: Message) -> list[JSONObject]:
    return [message.to_json() for message in given]


def node(id_: str, parent: str | None, bodies: Sequence[JSONObject] = (), **rest: Any) -> SessionNode:
    return SessionNode(id_, parent, rest.pop("name", None), f"thread of {id_}", WHEN, bodies, **rest)


def parts(*nodes: SessionNode, **rest: Any) -> SessionParts:
    return SessionParts("session", "agent", WHEN, WHEN, nodes, rest.pop("current", nodes[0].id), **rest)


def record(**rest: Any) -> CheckpointRecord:
    values: dict[str, Any] = {
        "id": "c",
        "run": "r",
        "step": 2,
        "node": "n",
        "position": 5,
        "start": 1,
        "at": AT,
        **rest,
    }
    return CheckpointRecord(**values)


def checkpoint_json(checkpoint: SessionCheckpoint) -> dict[str, Any]:
    document = cast("dict[str, Any]", session_json(parts(node("n", None), checkpoints=[checkpoint])))
    (only,) = document["checkpoints"]
    return only


def test_session_is_as_the_specification_has_it() -> None:
    message = UserMessage("hello", id="m", timestamp=WHEN)
    document = session_json(parts(node("n", None, said(message), name="main"), metadata={"task": "x"}))
    assert document == {
        "version": "1.0.0",
        "id": "session",
        "agentId": "agent",
        "createdAt": "2026-01-06T17:27:00.999Z",
        "updatedAt": "2026-01-06T17:27:00.999Z",
        "threadTree": {
            "rootId": "n",
            "currentId": "n",
            "nodes": [
                {
                    "id": "n",
                    "parentId": None,
                    "name": "main",
                    "thread": {
                        "id": "thread of n",
                        "messages": said(message),
                        "createdAt": "2026-01-06T17:27:00.999Z",
                        "updatedAt": "2026-01-06T17:27:00.999Z",
                    },
                    "children": [],
                    "metadata": {},
                }
            ],
        },
        "checkpoints": [],
        "metadata": {"task": "x"},
    }


def test_checkpoint_is_as_the_specification_has_it() -> None:
    """Its thread is the node; what the structure has no field for is in the metadata."""
    usage = {"inputTokens": 3, "totalTokens": 3}
    bodies = said(UserMessage("hello", id="m", timestamp=WHEN))
    found = checkpoint_json(
        SessionCheckpoint(record(usage=usage, cycles=2, metadata={"taskComplete": True}), bodies, 4)
    )
    assert found == {
        "id": "c",
        "sessionId": "session",
        "timestamp": AT,
        "step": 2,
        "threadId": "n",
        "state": {"step": 2, "messages": bodies, "metadata": {"taskComplete": True}},
        "subAgentStates": {},
        "metadata": {
            "stepId": derive_id("r", "step", 2),
            "runId": "r",
            "threadLength": 4,
            "usage": {
                "inputTokens": 3,
                "outputTokens": 0,
                "totalTokens": 3,
                "cacheReadTokens": 0,
                "cacheWriteTokens": 0,
            },
            "cycles": 2,
        },
    }
    assert is_uuid4(found["metadata"]["stepId"])


def test_tree_lists_children_and_where_a_branch_goes_on_from() -> None:
    tree = [
        node("a", None),
        node("b", "a", fork_index=3, metadata={"by": "me"}),
        node("c", "a", fork_index=0),
        node("d", "b"),
    ]
    found = cast("dict[str, Any]", session_json(parts(*tree, current="d"))["threadTree"])
    assert (found["rootId"], found["currentId"]) == ("a", "d")
    assert [item["children"] for item in found["nodes"]] == [["b", "c"], ["d"], [], []]
    assert [item["metadata"] for item in found["nodes"]] == [{}, {"by": "me", "forkIndex": 3}, {"forkIndex": 0}, {}]


@pytest.mark.parametrize("nodes", [[], [node("a", "b")], [node("a", None), node("b", None)]])
def test_tree_has_one_root(nodes: list[SessionNode]) -> None:
    with pytest.raises(ValueError, match="unpack"):
        session_json(SessionParts("s", "a", WHEN, WHEN, nodes, "a"))


def test_thread_is_as_old_as_its_last_message() -> None:
    """A client's clock may be behind: no thread was changed before it was made."""
    early, late = (UserMessage("x", timestamp=WHEN.replace(year=year)) for year in (2025, 2027))
    for bodies, expected in (([], "2026"), (said(early), "2026"), (said(early, late), "2027")):
        tree = cast("dict[str, Any]", session_json(parts(node("a", None, bodies)))["threadTree"])
        assert tree["nodes"][0]["thread"]["updatedAt"].startswith(expected)


bodies_of = st.lists(messages.map(lambda message: message.to_json()), max_size=2)
records = st.builds(
    CheckpointRecord,
    id=texts(), run=texts(), step=st.integers(1, 99), node=texts(), position=counts(), start=counts(), at=st.just(AT),
    usage=st.dictionaries(st.sampled_from(["inputTokens", "outputTokens", "totalTokens"]), counts(), max_size=3),
    cycles=counts(), metadata=json_objects(),
)  # fmt: skip
checkpoints = st.builds(SessionCheckpoint, records, bodies_of, counts())


@st.composite
def sessions(draw: st.DrawFn) -> SessionParts:
    """Any tree, any messages, any checkpoints."""
    nodes: list[SessionNode] = []
    for number in range(draw(st.integers(1, 3))):
        parent = None if number == 0 else draw(st.sampled_from([item.id for item in nodes]))
        nodes.append(
            SessionNode(
                f"{number}{draw(texts(3))}", parent, draw(st.none() | texts(3)), draw(texts(3)), draw(moments()),
                draw(bodies_of), None if parent is None else draw(counts()), draw(json_objects()),
            )
        )  # fmt: skip
    current = draw(st.sampled_from([item.id for item in nodes]))
    return SessionParts(
        draw(texts()), draw(texts()), draw(moments()), draw(moments()), nodes, current,
        draw(st.lists(checkpoints, max_size=2)), draw(json_objects()),
    )  # fmt: skip


few = settings(max_examples=25, deadline=None)  # a session is a large value to draw


@few
@given(sessions())
def test_document_survives_its_bytes(session: SessionParts) -> None:
    """What is read back is what was written, to the last lone surrogate, and gives the same bytes."""
    raw = dumps(session_json(session))
    assert loads(raw) == session_json(session)
    assert dumps(loads(raw)) == raw
    assert dumps(session_json(replace(session, nodes=list(session.nodes)))) == raw


@few
@given(sessions())
def test_threads_and_messages_are_read_back(session: SessionParts) -> None:
    """Every thread is UPP's ThreadJSON, every message UPP's MessageJSON, and nothing of them is lost."""
    document = cast("dict[str, Any]", loads(dumps(session_json(session))))
    for item, given_node in zip(document["threadTree"]["nodes"], session.nodes, strict=True):
        thread = Thread.from_json(item["thread"])
        assert thread.to_json() == item["thread"]
        assert (thread.id, thread.length) == (given_node.thread, len(given_node.messages))
    for item, checkpoint in zip(document["checkpoints"], session.checkpoints, strict=True):
        state = item["state"]
        assert [message_from_json(body).to_json() for body in state["messages"]] == list(checkpoint.messages)
        assert state["metadata"] == asdict(checkpoint.record)["metadata"]


@given(moments(), moments(), moments())
def test_times_are_utc_to_the_millisecond(opened: datetime, ended: datetime, made: datetime) -> None:
    document = cast(
        "dict[str, Any]",
        session_json(SessionParts("s", "a", opened, ended, [SessionNode("n", None, None, "t", made)], "n")),
    )
    thread = document["threadTree"]["nodes"][0]["thread"]
    for item in (document, thread):
        assert TIME.match(item["createdAt"])
        assert TIME.match(item["updatedAt"])
    assert thread["createdAt"] == thread["updatedAt"]
