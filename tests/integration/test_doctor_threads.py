"""`perdure doctor` on damaged threads: histories as other systems leave them (L13), and messages whose rows were damaged."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import text

from perdure.errors import KeyMissing
from perdure.store.database import Database
from perdure.store.keyring import parse_keys
from perdure.store.message_cache import MessageCache
from perdure.uap.ids import answer_id, new_id, results_id, root_node_id
from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from tests.integration.access_stage import own_database
from tests.integration.stack import Stack
from tests.integration.store_story import Story
from tests.integration.test_doctor_rows import damage, examined, goes_on, told, wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = "tenant_id = :tenant and session_id = :session"
USER = UserMessage("go on")


def asks(*calls: str) -> AssistantMessage:
    return AssistantMessage("wait", [ToolCall(call, "tool", {}) for call in calls])


def tells(*results: str) -> ToolResultMessage:
    return ToolResultMessage([ToolResult(result, f"result {result}") for result in results])


def shown(messages: Sequence[Message]) -> list[list[tuple[str, object]] | str]:
    """Of results their ids and values, of other messages their types."""
    return [
        [(one.tool_call_id, one.result) for one in message.results]
        if isinstance(message, ToolResultMessage)
        else str(message.type)
        for message in messages
    ]


async def thread(story: Story) -> list[list[tuple[str, object]] | str]:
    return shown([item.message for item in await story.thread()])


A, B = ("a", "result a"), ("b", "result b")
HISTORIES = {
    "missing": (
        [USER, asks("a", "b"), tells("a"), USER],
        "call 'b' has no result",
        ["user", "assistant", [A, ("b", NOT_CARRIED_OUT)], "user"],
    ),
    "none": (
        [USER, asks("a"), USER],
        "call 'a' has no result",
        ["user", "assistant", [("a", NOT_CARRIED_OUT)], "user"],
    ),
    "duplicate": (
        [USER, asks("a"), tells("a", "a"), USER],
        "call 'a' has another result",
        ["user", "assistant", [A], "user"],
    ),
    "foreign": (
        [USER, asks("a"), tells("a", "z"), USER, tells("y")],
        "a result belongs to no call, its id is 'z', a result belongs to no call, its id is 'y'",
        ["user", "assistant", [A], "user"],
    ),
    "reordered": (
        [USER, asks("a", "b"), tells("b", "a"), USER],
        "the results of message {answer} stand in another order",
        ["user", "assistant", [A, B], "user"],
    ),
    "elsewhere": (
        [USER, asks("a", "b"), tells("a"), USER, tells("b")],
        "the result of call 'b' does not stand behind its call",
        ["user", "assistant", [A, B], "user"],
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_damaged_history_is_repaired_once(story: Story, name: str) -> None:
    """L13: a history with missing, duplicate, foreign or reordered results is repaired once, stored, and stays."""
    history, what, expected = HISTORIES[name]
    first = await story.submit("hello", history=history)
    await story.begin()
    await story.end(first.run, "cancelled")
    node = root_node_id(story.key.session)
    answer = (await story.thread())[1].id
    assert wrong(await examined(story)) == {"threads": [f"in thread node {node} " + what.format(answer=answer)]}
    assert (await examined(story, repair=True))["threads"].mended == 1
    assert await thread(story) == expected
    rows = await story.rows()
    assert wrong(await examined(story, repair=True)) == {}
    assert await story.rows() == rows
    await goes_on(story)
    assert (await thread(story))[: len(expected)] == expected


async def test_what_stands_behind_a_missing_result_moves_up(story: Story) -> None:
    """Where there is no place for a result, all that names a later position names the same message afterwards."""
    first = await story.submit("hello", history=[USER, asks("a"), USER])
    await story.begin()
    await story.save(first.run)
    await story.end(first.run)
    insert = (
        "insert into perdure.checkpoints (tenant_id, session_id, id, run_id, node_id, step, position, at, record, "
        "temporal_run_id) values (:tenant, :session, 'c', :run, :node, 1, 5, '2030', "
        "cast(:record as json), 'e')"
    )
    node = root_node_id(story.key.session)
    await damage(story, insert, run=first.run, node=node, record='{"id": "c", "position": 5, "start": 3, "x": [1.0]}')
    assert (await examined(story, repair=True))["threads"].mended == 1
    rows = await story.rows()
    assert [row["position"] for row in rows["messages"]].count(5) == 1
    assert rows["runs"][0]["start_position"] == 4
    assert [(row["position"], row["record"]) for row in rows["checkpoints"]] == [
        (6, {"id": "c", "position": 6, "start": 3, "x": [1.0]})
    ]
    assert (await story.thread())[-1].position == 5


@dataclass(frozen=True)
class Damage:
    """What was done to a thread, what the doctor says in which checks, and what stands there after a repair."""

    sql: tuple[str, ...]
    found: dict[str, str]
    results: tuple[str, ...] = ("fine", "good")


LOST = "the result of this call is lost"
DAMAGES = {
    "no results": Damage(
        (f"delete from perdure.messages where {OWN} and type = 'tool_result'",),
        {"threads": "call 'call-0' has no result, call 'call-1' has no result"},
    ),
    "another body": Damage(
        (f"update perdure.messages set body = 'no JSON' where {OWN} and type = 'tool_result'",),
        {"threads": "the body of message {results} is lost, call 'call-0' has no result, call 'call-1' has no result"},
    ),
    "a result lost": Damage(
        (f"delete from perdure.payloads where {OWN} and sha256 = encode(sha256('\"good\"'), 'hex')",),
        {
            "runs": "the result of call {answer}/1 is lost",
            "threads": "the body of message {results} is lost, call 'call-0' has no result, call 'call-1' has no result",
        },
        ("fine", LOST),
    ),
    "a result changed": Damage(
        (f"update perdure.payloads set bytes = '\"bad\"' where {OWN} and sha256 = encode(sha256('\"good\"'), 'hex')",),
        {"threads": "the body of message {results} is lost, call 'call-0' has no result, call 'call-1' has no result"},
        ("fine", LOST),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_results_are_written_anew(story: Story, name: str) -> None:
    """Results whose message is gone or damaged come from the calls' own rows; what is lost there too is said to be lost."""
    run, harm = await told(story), DAMAGES[name]
    values = {
        "answer": answer_id(run, 1),
        "results": results_id(run, 1),
    }
    await damage(story, *harm.sql)
    node = f"in thread node {root_node_id(story.key.session)} "
    found = wrong(await examined(story))
    assert {check: len(phrases) for check, phrases in found.items()} == dict.fromkeys(harm.found, 1)
    for check, what in harm.found.items():
        wanted = (node if check == "threads" else "") + what.format(**values)
        assert found[check][0].startswith(wanted)
    mended = await examined(story, repair=True)
    assert {check: mended[check].mended for check in harm.found} == dict.fromkeys(harm.found, 1)
    assert (await thread(story))[2] == list(zip(("call-0", "call-1"), harm.results, strict=True))
    assert wrong(await examined(story)) == {}
    await goes_on(story)


async def test_a_users_message_comes_back_from_the_inbox(story: Story) -> None:
    """The body of a user's message that was damaged is taken from the input that it was."""
    await told(story)
    before = await story.rows()
    await damage(story, f"update perdure.messages set body = 'x' where {OWN} and type = 'user'")
    (what,) = wrong(await examined(story))["threads"]
    assert what.startswith("the body of user message ")
    assert (await examined(story, repair=True))["threads"].mended == 1
    assert await story.rows() == before
    assert wrong(await examined(story)) == {}
    await goes_on(story)


async def test_what_a_model_said_and_lost_is_named_and_left(story: Story) -> None:
    """Nobody else has what a model said: the doctor names it and what helps, repairs nothing, and deletes nothing."""
    run = await told(story)
    await damage(
        story, f"update perdure.messages set body = null where {OWN} and id = :answer", answer=answer_id(run, 2)
    )
    rows = await story.rows()
    for repair in (False, True):
        check = (await examined(story, repair=repair))["threads"]
        assert (check.ok, check.count, check.mended) == (False, 1, 0)
        assert check.findings[0].what.startswith(f"the body of assistant message {answer_id(run, 2)} is missing")
        assert "backup" in check.findings[0].remedy
    assert await story.rows() == rows


async def test_a_thread_in_use_is_left_alone(story: Story) -> None:
    """What an active run has written is not whole yet, and is not damage; damage before it is found and not touched."""
    await told(story)
    run = await story.run("again")
    await story.save(run, calls=1)
    assert wrong(await examined(story)) == {}
    await damage(story, f"delete from perdure.messages where {OWN} and type = 'tool_result'")
    rows = await story.rows()
    check = (await examined(story, repair=True))["threads"]
    assert (check.count, check.mended, "active run" in check.findings[0].outcome) == (1, 0, True)
    assert await story.rows() == rows
    await story.result(run)
    await story.end(run)
    assert (await examined(story, repair=True))["threads"].mended == 1
    await goes_on(story)


async def test_a_process_that_knew_the_thread_reads_it_anew(story: Story) -> None:
    """A repair begins another epoch of the session: no worker sends the model what was damaged."""
    await told(story)
    node, cache = root_node_id(story.key.session), MessageCache(story.database)
    before = await cache.read(story.key, node, end=4, epoch=(await story.head())["discards"])
    await damage(story, f"delete from perdure.messages where {OWN} and type = 'tool_result'")
    assert (await examined(story, repair=True))["threads"].mended == 1
    after = await cache.read(story.key, node, end=4, epoch=(await story.head())["discards"])
    assert shown([item.message for item in after]) == shown([item.message for item in before])
    assert after[2].id != before[2].id


@pytest.fixture(scope="module")
def sealed_url(stack: Stack) -> Iterator[str]:
    """A database of its own: whoever reads all rows of the shared one has no key."""
    with own_database(stack) as url:
        yield url


@pytest.mark.parametrize("name", DAMAGES)
async def test_sealed_threads_are_mended_too(sealed_url: str, name: str) -> None:
    """With encryption keys the same damage is found and mended, and what a repair writes is sealed like all else."""
    keyring = parse_keys("doctor:" + base64.b64encode(bytes(range(32))).decode())
    sealing, without = Database(sealed_url, keyring=keyring), Database(sealed_url)
    try:
        story = Story(sealing, SessionKey(f"tenant-{uuid.uuid4().hex}", new_id()))
        await told(story)
        await damage(story, *DAMAGES[name].sql)
        assert set(wrong(await examined(story))) == set(DAMAGES[name].found)
        await examined(story, repair=True)
        assert wrong(await examined(story)) == {}
        results = (await thread(story))[2]
        assert results == list(zip(("call-0", "call-1"), DAMAGES[name].results, strict=True))
        await goes_on(story)
        sql = f"select body from perdure.messages where {OWN} and type = 'tool_result' and not discarded"
        with pytest.raises(KeyMissing, match="doctor"):
            async with without.transaction() as connection:
                await connection.scalars(text(sql), story.key._asdict())
    finally:
        await sealing.close()
        await without.close()
