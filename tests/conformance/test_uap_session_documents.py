"""Documents of sessions: UAP's readings and MUSTs by their numbers in the reference; in process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4
from perdure.uap.session import Session, session
from perdure.upp.content import ImageBlock
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONValue
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import UserMessage
from tests.conformance.uap_session_stage import Talker, example, loaded, parts, said

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


# Identity and serialization


async def test_reading_4_1_generated_ids_are_uuids_and_read_ones_stay() -> None:
    made = session(Talker().agent())
    await made.run("one")
    (taken,) = made.checkpoints
    ids = [made.id, made.agent.id, made.thread_tree.root.id, made.thread_tree.root.thread.id, taken.id]
    assert all(is_uuid4(item) for item in ids)
    with pytest.raises(InvalidInput, match="not a UUIDv4"):
        session(made.agent, id="sess_abc123")
    assert loaded(example()).id == "sess_abc123"


def test_reading_4_3_the_example_is_read_and_dates_are_written() -> None:
    """Byte for byte but for the dates of its threads, which UPP asks for."""
    made = loaded(example())
    document = cast("dict[str, Any]", made.to_json())
    for node in document["threadTree"]["nodes"]:
        assert TIME.match(node["thread"].pop("createdAt"))
        assert TIME.match(node["thread"].pop("updatedAt"))
    assert json.dumps(document) == json.dumps(example())
    assert parts(session(made.agent), "threadTree")["nodes"][0]["parentId"] is None


async def test_reading_4_5_another_agent_goes_on_and_the_first_ones_id_stays() -> None:
    made = session(Talker().agent())
    await made.run("one")
    again = loaded(made.to_json())
    assert again.agent.id != made.agent.id
    await again.run("two")
    assert again.to_json()["agentId"] == made.agent.id
    assert session(Talker().agent(name="same")).to_json()["agentId"] == Talker().agent(name="same").id


@pytest.mark.parametrize("version", [None, 1, "", "1", "2.0.0", "0.9.0", "11.0.0"])
def test_reading_4_6_another_major_version_is_refused(version: JSONValue) -> None:
    with pytest.raises(InvalidInput, match=r"^version: "):
        loaded({**example(), "version": version})


def test_reading_4_6_the_same_major_version_is_read() -> None:
    assert loaded({**example(), "version": "1.4.2"}).id == "sess_abc123"
    with pytest.raises(InvalidInput, match=r"^version: "):
        loaded({name: value for name, value in example().items() if name != "version"})


async def test_reading_4_6_times_are_utc_with_z() -> None:
    made = session(Talker().agent())
    await made.run("one")
    assert TIME.match(parts(made, "createdAt"))
    assert TIME.match(parts(made, "updatedAt"))
    assert TIME.match(made.checkpoints[0].timestamp)


async def test_reading_4_6_binary_is_base64() -> None:
    """In content and in tool results."""

    @tool
    async def paint(word: str) -> bytes:
        """Paint."""
        return b"\xff\x00"

    made = session(Talker(tool_name="paint").agent(tools=[paint]))
    await made.run(UserMessage(["look", ImageBlock(BytesSource(b"\xff\x01"), "image/png")]))
    text = json.dumps(made.to_json())
    assert '"/wA="' in text
    assert '"/wE="' in text
    again = loaded(text)
    assert again.to_json() == made.to_json()
    assert again.thread_tree.history()[0].images == made.thread_tree.history()[0].images


# What sections 6.5 and 13.6 require beyond that


async def test_must_13_6_1_and_3_ids_and_tree_are_kept() -> None:
    made = session(Talker().agent())
    await made.run("look")
    made.thread_tree.checkout(made.fork(made.thread_tree.root.id, "other"))
    await made.run("two")
    document = made.to_json()
    assert loaded(document).to_json() == document


async def test_must_13_6_2_metadata_of_messages_is_kept_whoever_wrote_it() -> None:
    made = session(Talker().agent())
    await made.run(UserMessage("one", metadata={"anthropic": {"cache": True}, "unheard_of": {"x": [1]}}))
    assert loaded(made.to_json()).thread_tree.history()[0].metadata == {
        "anthropic": {"cache": True},
        "unheard_of": {"x": [1]},
    }


DEEDS: list[Callable[[Session], Any]] = [
    lambda made: made.run("look"),
    lambda made: made.restore(made.checkpoints[0].id),
    lambda made: made.run("on"),
]


async def test_must_13_6_5_a_loaded_session_behaves_as_the_first() -> None:
    first = session(Talker().agent())
    await first.run("look")
    second = loaded(first.to_json())
    for deed in DEEDS:
        await deed(first)
        await deed(second)
        assert said(first) == said(second)
        assert len(first.thread_tree.nodes) == len(second.thread_tree.nodes)
        assert [item.step for item in first.checkpoints] == [item.step for item in second.checkpoints]
