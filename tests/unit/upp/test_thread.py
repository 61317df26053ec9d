"""Threads."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given

from perdure.upp.errors import UPPError
from perdure.upp.json_value import dumps, loads
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.thread import Thread
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage
from tests.unit.upp import strategies as upp

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def old_thread(*texts: str) -> Thread:
    return Thread([UserMessage(text) for text in texts], created_at=LONG_AGO)


@given(upp.threads)
def test_a_thread_survives_json(thread: Thread) -> None:
    """Id, dates and messages with their timestamps are read back equal."""
    again = Thread.from_json(loads(dumps(thread.to_json())))
    assert again.to_json() == thread.to_json()
    assert again.messages == thread.messages
    assert (again.id, again.created_at, again.updated_at) == (thread.id, thread.created_at, thread.updated_at)


def test_a_new_thread_is_empty_with_an_id_of_its_own() -> None:
    """The id is a UUIDv4; an empty thread is still true."""
    thread = Thread()
    assert uuid.UUID(thread.id).version == 4
    assert (thread.length, len(thread), list(thread), bool(thread)) == (0, 0, [], True)
    assert thread.created_at == thread.updated_at


def test_the_given_list_is_copied() -> None:
    """The caller's list and the thread do not grow together."""
    given = [UserMessage("a")]
    thread = Thread(given)
    given.append(UserMessage("b"))
    assert len(thread) == 1


def test_messages_are_handed_out_as_copies() -> None:
    """Nobody changes a thread behind its back."""
    thread = old_thread("a")
    thread.messages.clear()
    thread.to_messages().clear()
    assert len(thread) == 1


def test_changes_are_chained_and_move_the_date() -> None:
    """Each change returns the thread and is seen in updated_at."""
    thread = old_thread()
    turn = Turn([UserMessage("c"), AssistantMessage("d")], [], empty_usage(), 1)
    assert thread.user("a").assistant("b").append(turn).push(UserMessage("e")) is thread
    assert [message.text for message in thread] == ["a", "b", "c", "d", "e"]
    assert thread.created_at == LONG_AGO
    assert thread.updated_at > LONG_AGO


def test_clearing_is_a_change() -> None:
    """A cleared thread is empty and says when."""
    thread = old_thread("a")
    assert thread.clear() is thread
    assert len(thread) == 0
    assert thread.updated_at > LONG_AGO


def test_messages_are_found_by_type() -> None:
    """Constants and plain strings select."""
    thread = Thread().user("a").assistant("b").user("c")
    assert [message.text for message in thread.filter("user")] == ["a", "c"]


@pytest.mark.parametrize(("count", "expected"), [(2, ["b", "c"]), (9, ["a", "b", "c"]), (0, []), (-1, [])])
def test_the_tail_is_the_last_messages(count: int, expected: list[str]) -> None:
    """A tail of nothing is nothing."""
    assert [message.text for message in old_thread("a", "b", "c").tail(count)] == expected


def test_a_slice_is_a_new_thread() -> None:
    """The part has its own id and the same messages."""
    thread = old_thread("a", "b", "c")
    part = thread.slice(1)
    assert part.id != thread.id
    assert part.messages == thread.messages[1:]
    assert [message.text for message in thread.slice(0, -1)] == ["a", "b"]


def test_absent_dates_are_tolerated() -> None:
    """UAP's own example writes threads without dates."""
    assert Thread.from_json({"id": "thread_001", "messages": []}).id == "thread_001"


def test_a_message_of_unknown_type_is_refused() -> None:
    """No message is dropped in silence."""
    message = {"type": "system", "id": "m", "timestamp": "2026-01-06T17:27:00Z"}
    with pytest.raises(UPPError, match="unknown type 'system'"):
        Thread.from_json({"id": "t", "messages": [dict(message)]})
